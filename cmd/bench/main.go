// Command bench measures agentbus against its goals: real processes on loopback, streams in files, compared with a
// plain HTTP server that only streams. It prints Markdown.
//
//	go run ./cmd/bench                  everything, a few minutes
//	go run ./cmd/bench -only first      one experiment
//	go run ./cmd/bench -require P4,P7   ends with status 1 if one of these goals is not reached
//
// It ends with status 1 if a reader loses an event, or receives one twice or out of order. Read environment.go for the
// environment of the experiments, and the file of each experiment for its procedure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/bare"
	"github.com/alicebob/miniredis/v2"
)

// experiment measures once in each round, and reports the results.
type experiment interface {
	round(ctx context.Context, l *environment) error
	report(r *report)
}

// named is an experiment in the list.
type named struct {
	name string
	experiment
}

// experiments is the list, in the order of a round.
func experiments() []named {
	return []named{
		{"throughput", &throughput{}},
		{"latency", &latency{}},
		{"first", &first{}},
		{"resume", &resume{}},
		{"slow", &slow{}},
		{"idle", &idle{}},
		{"always", &always{}},
	}
}

// options are the flags.
type options struct {
	streams int
	events  int
	bytes   int
	rounds  int
	idle    int
	only    []string
	require []string
	profile string // folder for profiles; "" = no profiles
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == "bare" {
		return serveBare(ctx, args[1])
	}
	if len(args) == 2 && args[0] == "redis" {
		return serveRedis(ctx, args[1])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	return measure(ctx, o)
}

// serveBare runs the server with which agentbus is compared.
func serveBare(ctx context.Context, addr string) error {
	server := &http.Server{Addr: addr, Handler: bare.Handler(), ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// serveRedis runs Redis in a separate process, so that it need not be installed.
func serveRedis(ctx context.Context, addr string) error {
	redis := miniredis.NewMiniRedis()
	if err := redis.StartAddr(addr); err != nil {
		return err
	}
	<-ctx.Done()
	redis.Close()
	return nil
}

func parse(args []string) (options, error) {
	var o options
	var only, require string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.streams, "streams", 200, "streams at once")
	flags.IntVar(&o.events, "events", 2000, "deltas of a stream when it goes as fast as it can")
	flags.IntVar(&o.bytes, "bytes", 250, "size of an event on the wire; its envelope alone may need more")
	flags.IntVar(&o.rounds, "rounds", 3, "how often everything is measured; the medians are printed")
	flags.IntVar(&o.idle, "idle", 2000, "streams that stay open and idle")
	flags.StringVar(&only, "only", "", "names of experiments, by comma; default all")
	flags.StringVar(&require, "require", "", "goals that must be reached, by comma")
	flags.StringVar(&o.profile, "profile", "", "folder for profiles of the gateway amid slow readers; default none are taken")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if min(o.streams, o.events, o.bytes, o.rounds, o.idle) < 1 {
		return o, errors.New("-streams, -events, -bytes, -rounds and -idle must be at least 1")
	}
	o.only, o.require = words(only), words(require)
	for _, name := range o.only {
		if !slices.ContainsFunc(experiments(), func(e named) bool { return e.name == name }) {
			return o, fmt.Errorf("-only %s: the experiment does not exist", name)
		}
	}
	return o, nil
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// measure runs the selected experiments round by round, so that compared values are measured under the same conditions.
func measure(ctx context.Context, o options) error {
	var chosen []named
	for _, e := range experiments() {
		if len(o.only) == 0 || slices.Contains(o.only, e.name) {
			chosen = append(chosen, e)
		}
	}
	r := newReport()
	l, err := openLab(ctx, o)
	if err != nil {
		return err
	}
	defer l.close()
	for round := range o.rounds {
		l.turn = round
		for _, e := range chosen {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, o.rounds, e.name)
			if err := e.round(ctx, l); err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
		}
	}
	r.setting(l)
	for _, e := range chosen {
		e.report(r)
	}
	return r.finish(os.Stdout, l, o.require)
}
