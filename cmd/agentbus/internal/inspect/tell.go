package inspect

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// show writes a line for each event, below a line for each request: its time, the time since the first event, its
// number in the log, its type, and the rest of it, shortened.
func show(entries iter.Seq2[entry, error], out io.Writer) error {
	request, began := "", time.Time{}
	for e, err := range entries {
		if err != nil {
			return err
		}
		of, at := e.request, e.event.Time
		if of != request {
			request, began = of, at
			if _, err := fmt.Fprintf(out, "%s, %s\n", screen.Clean(request), at.Local().Format(time.DateTime)); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintf(out, "%s %+9.3fs %6s  %-14s %s\n", at.Local().Format("15:04:05.000"), at.Sub(began).Seconds(),
			number(e.event.ID), screen.Clean(e.event.Type), screen.Clean(screen.Short(string(e.event.Data))))
		if err != nil {
			return err
		}
	}
	return nil
}

// number returns the number of an event in its log.
func number(id string) string { return screen.Clean(id[strings.LastIndexByte(id, '-')+1:]) }

// lines writes the encoded events, one per line.
func lines(entries iter.Seq2[entry, error], out io.Writer) error {
	for e, err := range entries {
		if err != nil {
			return err
		}
		if _, err := out.Write(append(e.line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// save writes the events to a file as a JSON array. The file appears when it is complete.
func save(entries iter.Seq2[entry, error], name string, side io.Writer) error {
	file, err := os.CreateTemp(filepath.Dir(name), ".inspect-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // no effect after the file was renamed
	n, err := array(entries, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(side, "%d events are in %s\n", n, name)
	return err
}

func array(entries iter.Seq2[entry, error], file io.Writer) (n int, err error) {
	buffer := bufio.NewWriter(file)
	write := jsontext.NewEncoder(buffer, jsontext.WithIndent("  "))
	if err := write.WriteToken(jsontext.BeginArray); err != nil {
		return n, err
	}
	for e, err := range entries {
		if err != nil {
			return n, err
		}
		if err := write.WriteValue(jsontext.Value(e.line)); err != nil {
			return n, err
		}
		n++
	}
	if err := write.WriteToken(jsontext.EndArray); err != nil {
		return n, err
	}
	return n, buffer.Flush()
}

// stats are the statistics of a log.
type stats struct {
	Events   int                  `json:"events"`
	Requests int                  `json:"requests"`
	Bytes    int                  `json:"bytes"`
	From     time.Time            `json:"from,omitzero"`
	To       time.Time            `json:"to,omitzero"`
	ByType   map[string]typeStats `json:"byType"`
}

type typeStats struct {
	Events int `json:"events"`
	Bytes  int `json:"bytes"`
}

// count counts the events of each type, and their time span.
func count(entries iter.Seq2[entry, error], out io.Writer, asJSON bool) error {
	all := stats{ByType: map[string]typeStats{}}
	request := ""
	for e, err := range entries {
		if err != nil {
			return err
		}
		all.add(e)
		if e.request != request { // the requests of a thread follow one another
			request = e.request
			all.Requests++
		}
	}
	if asJSON {
		text, err := jsonv2.Marshal(all, jsonv2.Deterministic(true))
		if err != nil {
			return err
		}
		_, err = out.Write(append(text, '\n'))
		return err
	}
	return all.table(out)
}

func (s *stats) add(e entry) {
	of := s.ByType[e.event.Type]
	of.Events++
	of.Bytes += len(e.line)
	s.ByType[e.event.Type] = of
	s.Events++
	s.Bytes += len(e.line)
	if s.From.IsZero() || e.event.Time.Before(s.From) {
		s.From = e.event.Time
	}
	if e.event.Time.After(s.To) {
		s.To = e.event.Time
	}
}

// table prints the types, the most frequent first.
func (s *stats) table(out io.Writer) error {
	types := slices.SortedFunc(maps.Keys(s.ByType), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.ByType[b].Events, s.ByType[a].Events), cmp.Compare(a, b))
	})
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "TYPE\tEVENTS\tBYTES") // Flush returns the errors
	for _, name := range types {
		of := s.ByType[name]
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\n", screen.Clean(name), of.Events, of.Bytes)
	}
	_, _ = fmt.Fprintf(table, "all\t%d\t%d\n", s.Events, s.Bytes)
	if err := table.Flush(); err != nil {
		return err
	}
	plural := "s"
	if s.Requests == 1 {
		plural = ""
	}
	_, err := fmt.Fprintf(out, "%d request%s, %s\n", s.Requests, plural, s.To.Sub(s.From).Round(time.Millisecond))
	return err
}
