package client

import "time"

// SetWait sets the wait between two attempts of c.
func SetWait(c *Client, wait time.Duration) { c.wait = wait }
