package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
)

const (
	frameColumns = `f.request_id, f.first_n, f.incarnation, f.names, f.at, f.lines`
	ofRequest    = `SELECT 0, '', ` + frameColumns + ` FROM frames f WHERE TRUE`
	ofThread     = `SELECT r.idx, r.agent_id, ` + frameColumns + ` FROM requests r
		JOIN frames f ON f.tenant = r.tenant AND f.request_id = r.request_id WHERE NOT r.deleted AND r.idx >= 0`
)

// origin is the request that a frame belongs to.
type origin struct {
	index     int // 0 in a list of a request
	requestID string
	agentID   string // "" in a list of a request
}

// clauses is a selection of frames that grows conditions.
type clauses struct {
	text strings.Builder
	args []any
}

func selection(text string) *clauses {
	c := &clauses{}
	c.text.WriteString(text)
	return c
}

// and adds a condition; each ? in it stands for the next of args.
func (c *clauses) and(condition string, args ...any) *clauses {
	for _, arg := range args {
		c.args = append(c.args, arg)
		condition = strings.Replace(condition, "?", "$"+strconv.Itoa(len(c.args)), 1)
	}
	c.text.WriteString(" AND " + condition)
	return c
}

// frames shows the first frames of the selection to one until that has enough, and returns how many it showed. Their
// lines are valid until one returns.
func (c *clauses) frames(
	ctx context.Context, db querier, order string, limit int, one func(o origin, f event.Frame) (more bool),
) (shown int, err error) {
	c.text.WriteString(" ORDER BY " + order + " LIMIT " + strconv.Itoa(limit))
	err = each(ctx, db, c.text.String(), c.args, func(rows *sql.Rows) error {
		var of origin
		var names string
		var at int64
		var lines sql.RawBytes
		var f event.Frame
		if err := rows.Scan(&of.index, &of.agentID, &of.requestID, &f.First, &f.Incarnation, &names, &at, &lines); err != nil {
			return err
		}
		unpacked, err := event.UnpackNames(names)
		if err != nil {
			return fmt.Errorf("frame at %d of request %s: %w", f.First, of.requestID, err)
		}
		if f.Lines, err = event.UnpackLines(lines); err != nil {
			return fmt.Errorf("frame at %d of request %s: %w", f.First, of.requestID, err)
		}
		f.Names, f.Time = unpacked, moment(at)
		shown++
		if !one(of, f) {
			return errEnough
		}
		return nil
	})
	return shown, err
}
