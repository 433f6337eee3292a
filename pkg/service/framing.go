package service

import "net/http"

// CloseChunked closes the connection after each request whose body came in chunks. Such a request may have had a
// Content-Length too, which net/http drops before a handler sees it: bytes that another server takes for the end of
// that request must not be read as the beginning of the next one (RFC 9112, 6.1).
func CloseChunked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			r.Close = true
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
