package service

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	askTime   = 5 * time.Second // more than the checks of /readyz take
	maxAnswer = 4 << 10
)

// AskReady asks /readyz of the process on this machine whose admin server listens at adminAddr, and returns nil if it is
// ready. The error has what the process waits for.
func AskReady(ctx context.Context, adminAddr string) error {
	host, port, err := net.SplitHostPort(adminAddr)
	if err != nil {
		return fmt.Errorf("ADMIN_ADDR %q: write host:port, such as 127.0.0.1:9090", adminAddr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // it listens on all addresses
	}
	address := url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: "/readyz"}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", &address, err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy of the environment
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask whether the service is ready: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // what was read until an error is the answer
	return fmt.Errorf("not ready: %s: %s", response.Status, strings.TrimSpace(string(body)))
}
