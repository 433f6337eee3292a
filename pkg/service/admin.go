package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"
)

// checkTime limits the checks of one /readyz, which run in parallel.
const checkTime = 2 * time.Second

const (
	writeTime = time.Minute     // for one answer; net/http/pprof adds the time of a profile
	bodyTime  = 5 * time.Second // for a body, which no route reads
)

// admin is the server for operators. The zero value has no server.
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
	for _, r := range adminRoutes(o, state) {
		mux.Handle(r.pattern, r.handler)
	}
	a := &admin{
		server: &http.Server{
			Handler: CloseChunked(limitBodyTime(mux)), MaxHeaderBytes: 16 << 10,
			ReadHeaderTimeout: 5 * time.Second, WriteTimeout: writeTime, IdleTimeout: 2 * time.Minute,
			ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		},
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

// limitBodyTime closes the connection of a client whose body does not arrive in time. A server with a ReadTimeout would end
// the context of a profile that lasts longer.
func limitBodyTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // every connection here has deadlines
		}
		next.ServeHTTP(w, r)
	})
}

// adminRoute is a pattern of [http.ServeMux], and what serves it.
type adminRoute struct {
	pattern string
	handler http.Handler
}

// adminRoutes lists what the admin server serves, to anyone who reaches its address.
func adminRoutes(o Options, state *readiness) []adminRoute {
	alive := func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") }
	routes := []adminRoute{{"GET /healthz", http.HandlerFunc(alive)}, {"GET /readyz", http.HandlerFunc(state.serve)}}
	if o.Metrics != nil {
		routes = append(routes, adminRoute{"GET /metrics", o.Metrics})
	}
	if o.Profile {
		routes = append(routes,
			adminRoute{"GET /debug/pprof/", http.HandlerFunc(pprof.Index)},
			adminRoute{"GET /debug/pprof/profile", http.HandlerFunc(pprof.Profile)},
			adminRoute{"GET /debug/pprof/trace", http.HandlerFunc(pprof.Trace)})
	}
	return routes
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
	_ = a.server.Close() // the process ends, so the error does not matter
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
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // the asker is gone: nothing to do
}
