package egress

import "net/url"

// CheckURL is what the guard says of a URL before anything is resolved.
func CheckURL(u *url.URL) error { return Options{PlainHTTP: true}.withDefaults().checkURL(u) }
