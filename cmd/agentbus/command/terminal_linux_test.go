package command

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// atTerminal starts a command line at a terminal, and returns what it shows.
func atTerminal(t *testing.T, args ...string) (keys *os.File, shows *buffer, ended <-chan error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), exe, args...)
	command.Env = append(os.Environ(), "AGENTBUS_TEST_PROGRAM=1", "TERM=xterm", "NO_COLOR=", "AGENTBUS_CHAT_HISTORY=off")
	keys, err = pty.StartWithSize(command, &pty.Winsize{Rows: 40, Cols: 200})
	if err != nil {
		t.Fatal(err)
	}
	shows = &buffer{}
	done := make(chan error, 1)
	go func() {
		_, _ = io.Copy(shows, keys) // ends with the program
		done <- command.Wait()
	}()
	t.Cleanup(func() { _ = keys.Close() })
	return keys, shows, done
}

func TestChatAtATerminal(t *testing.T) {
	t.Parallel()
	keys, shows, ended := atTerminal(t, shared().at("chat")...)
	press := func(text string) {
		t.Helper()
		if _, err := io.WriteString(keys, text); err != nil {
			t.Fatal(err)
		}
	}
	const (
		up, left = "\x1b[A", "\x1b[D"
		ready    = "\x1b[?2004h> " // the editor reads; a key that is pressed earlier is shown by the terminal itself
	)
	shows.await(t, ready)
	press("/say hllo" + left + left + left + "e\r") // editing within the line
	shows.await(t, "hello\r\n"+ready)
	press(up + " again\r") // the history
	shows.await(t, "hello again\r\n"+ready)
	press("/say one\\\r/say two\r") // a line that continues
	shows.await(t, "one\r\ntwo\r\n"+ready)
	press("\x1b[200~/say three\r/say four\x1b[201~\r") // pasted lines
	shows.await(t, "three\r\nfour\r\n"+ready)
	press("/help\r")
	shows.await(t, "that begin with /.\x1b[0m\r\n"+ready)
	press("/sleep 3s\\\r/say over\r")
	shows.await(t, "… 1 s, Ctrl-C aborts") // progress
	shows.await(t, "over\r\n"+ready)
	press("\x04")
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Ctrl-D: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("Ctrl-D does not end it; it shows %q", shows)
	}
	if !regexp.MustCompile("thread thr_\\w+; continue it with `agentbus chat demo --thread thr_\\w+`").MatchString(shows.String()) {
		t.Errorf("no thread at the end of %q", shows)
	}
	if strings.Contains(shows.String(), "^[[A") {
		t.Errorf("a key is shown as text in %q", shows)
	}
}

func TestChatKeepsItsLines(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lines")
	const (
		up    = "\x1b[A"
		ready = "\x1b[?2004h> "
	)
	for _, chat := range []struct{ types, shows string }{
		{"/say first\r", "first\r\n" + ready},
		{up + " again\r", "first again\r\n" + ready}, // another process
	} {
		keys, shows, ended := atTerminal(t, shared().at("chat", "--history", file)...)
		shows.await(t, ready)
		if _, err := io.WriteString(keys, chat.types); err != nil {
			t.Fatal(err)
		}
		shows.await(t, chat.shows)
		if _, err := io.WriteString(keys, "\x04"); err != nil {
			t.Fatal(err)
		}
		<-ended
	}
	text, err := os.ReadFile(file)
	if err != nil || string(text) != "/say first\n/say first again\n" {
		t.Errorf("got %q, %v, want both lines", text, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want that the user alone can read it", info, err)
	}
}
