package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/agentbus/agentbus/services/history"
)

// historyCommand works on the database of history directly: the gateway has no route for it.
type historyCommand struct {
	Rebuild historyRebuildCommand `cmd:"" help:"Store again everything that the event stream still holds. Nothing is deleted."`
}

type historyRebuildCommand struct {
	Database string `env:"DATABASE_URL" help:"Database of history (postgres://… or sqlite:PATH)."`
	Data     string `type:"path" help:"Folder of agentbus dev --data, instead of a database."`
	Wait     bool   `help:"Wait until the rebuild has ended. A history process must be running."`
}

// historyFile is the name of the database in the folder of agentbus dev.
const historyFile = "history.db"

func (cmd *historyRebuildCommand) Run(ctx context.Context, g globals, c *console) error {
	database, err := cmd.database()
	if err != nil {
		return err
	}
	if err := history.Rebuild(ctx, database, cmd.report(c)); err != nil {
		return fmt.Errorf("rebuild history: %w", err)
	}
	state := "requested"
	if cmd.Wait {
		state = "done"
	}
	if g.JSON {
		return line(c.out, map[string]string{"rebuild": state})
	}
	_, err = fmt.Fprintln(c.out, "rebuild "+state)
	return err
}

func (cmd *historyRebuildCommand) database() (string, error) {
	database := cmd.Database
	if cmd.Data != "" {
		database = "sqlite:" + filepath.Join(cmd.Data, historyFile)
	}
	if database == "" {
		return "", errors.New("set DATABASE_URL or --database to the database of history, or --data to the folder of agentbus dev")
	}
	if path, isFile := strings.CutPrefix(database, "sqlite:"); isFile && path != ":memory:" {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("database %s does not exist", path) // opening it would create it
		}
	}
	return database, nil
}

// report prints the progress of the rebuild; it is nil without --wait.
func (cmd *historyRebuildCommand) report(c *console) func(history.RebuildState) {
	if !cmd.Wait {
		return nil
	}
	last := ""
	return func(s history.RebuildState) {
		text := "waiting for a history process"
		if s.Begun {
			text = fmt.Sprintf("message %d of %d", s.Through, s.Target)
		}
		if text != last {
			_, _ = fmt.Fprintln(c.err, text) // progress only
			last = text
		}
	}
}
