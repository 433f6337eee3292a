package service

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// Certificate is the TLS certificate of a server, from two files. It is safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
	modified          atomic.Pointer[time.Time] // the file of current
	checked           atomic.Int64              // when the file was last checked, in Unix seconds
}

// OpenCertificate reads the certificate of TLS_CERT_FILE and TLS_KEY_FILE. It returns nil without an error if neither is set.
func OpenCertificate(certFile, keyFile string) (*Certificate, error) {
	if certFile == "" && keyFile == "" {
		return nil, nil //nolint:nilnil // TLS is off, and nothing is wrong
	}
	if certFile == "" || keyFile == "" {
		return nil, errors.New("TLS needs both TLS_CERT_FILE and TLS_KEY_FILE")
	}
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	return c, c.Load()
}

// Load reads the files again. If that fails, the previous certificate remains in use.
func (c *Certificate) Load() error {
	file, err := os.Stat(c.certFile)
	if err != nil {
		return fmt.Errorf("TLS_CERT_FILE: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("TLS_CERT_FILE and TLS_KEY_FILE: %w", err)
	}
	modified := file.ModTime()
	c.modified.Store(&modified)
	c.current.Store(&pair)
	return nil
}

// Config returns a TLS configuration that offers the certificate, TLS 1.2 or later. A handshake loads the certificate again
// if its file has changed, which is checked once a minute.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		c.refresh(time.Now())
		return c.current.Load(), nil
	}}
}

// refreshEvery is how often handshakes check the file of a certificate.
const refreshEvery = 60 // seconds

func (c *Certificate) refresh(now time.Time) {
	checked := c.checked.Load()
	if now.Unix()-checked < refreshEvery || !c.checked.CompareAndSwap(checked, now.Unix()) {
		return
	}
	if file, err := os.Stat(c.certFile); err == nil && !file.ModTime().Equal(*c.modified.Load()) {
		_ = c.Load() // both files may not be written yet: the next check loads them
	}
}
