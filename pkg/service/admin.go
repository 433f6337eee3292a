package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"
)

// checkTime bounds the checks behind one /readyz, which run beside one another.
const checkTime = 2 * time.Second

// admin is the server for operators. The zero value is none.
type admin struct {
	server   *http.Server
	listener net.Listener
	done     chan struct{}
}

func openAdmin(ctx context.Context, o Options, state *readiness) (*admin, error) {
	if o.AdminAddr == "" {
		return &admin{}, nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", o.AdminAddr)
	if err != nil {
		return nil, fmt.Errorf("open the admin server: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", state.serve)
	if o.Metrics != nil {
		mux.Handle("GET /metrics", o.Metrics)
	}
	if o.Profile {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	a := &admin{
		server:   &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10},
		listener: listener,
		done:     make(chan struct{}),
	}
	go func() { // ends with close
		defer close(a.done)
		if err := a.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("admin server", "error", err)
		}
	}()
	return a, nil
}

func (a *admin) addr() string {
	if a.listener == nil {
		return ""
	}
	return a.listener.Addr().String()
}

func (a *admin) close() {
	if a.server == nil {
		return
	}
	_ = a.server.Close() // the process ends: nobody is left to hear of it
	<-a.done
}

func (s *readiness) serve(w http.ResponseWriter, r *http.Request) {
	checks := s.checks.Load()
	switch {
	case s.stopping.Load():
		answer(w, http.StatusServiceUnavailable, "stopping")
	case checks == nil:
		text := "starting"
		if waiting := s.waiting.Load(); waiting != nil {
			text += "\nwaiting for " + *waiting
		}
		answer(w, http.StatusServiceUnavailable, text)
	default:
		failed := failures(r.Context(), *checks)
		if len(failed) > 0 {
			answer(w, http.StatusServiceUnavailable, strings.Join(failed, "\n"))
			return
		}
		answer(w, http.StatusOK, "ok")
	}
}

// failures runs the checks and returns a line for each that fails, in their order.
func failures(ctx context.Context, checks []Check) []string {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	errs := make([]error, len(checks))
	var wait sync.WaitGroup
	for i, c := range checks {
		wait.Go(func() { errs[i] = c.Ready(ctx) })
	}
	wait.Wait()
	var lines []string
	for i, err := range errs {
		if err != nil {
			lines = append(lines, checks[i].Name+": "+err.Error())
		}
	}
	return lines
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // the asker is gone: nothing to do
}
