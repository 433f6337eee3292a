package client

import "time"

// SetWait makes c impatient.
func SetWait(c *Client, wait time.Duration) { c.wait = wait }
