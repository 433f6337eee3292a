package frontend

import (
	"bytes"
	_ "embed"
	"net/http"
	"strings"
	"time"

	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// loginHTML asks for an API key, and sends it in the Authorization header of POST /login.
//
//go:embed login.html
var loginHTML []byte

// icon is the icon of the page, in SVG.
//
//go:embed icon.svg
var icon []byte

// getLogin returns the page on which a user enters an API key.
func (p *Page) getLogin(x *protocol.Exchange) error {
	x.SetHeader("Content-Security-Policy", strings.Join([]string{
		"default-src 'none'", "script-src " + loginScript(), "style-src 'unsafe-inline'", "connect-src 'self'", "img-src 'self'",
		"base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
	}, "; "))
	x.ServeContent("login.html", time.Time{}, bytes.NewReader(loginHTML))
	return nil
}

// loginScript returns the source expression of the script of the login page.
func loginScript() string {
	_, rest, _ := bytes.Cut(loginHTML, []byte("<script>"))
	script, _, _ := bytes.Cut(rest, []byte("</script>"))
	return hash(script)
}

// postLogin sets the cookie of a login. The request needs an API key; the cookie of an earlier login does not suffice.
func postLogin(x *protocol.Exchange) error {
	if err := x.Login(); err != nil {
		return err
	}
	return x.Reply(http.StatusOK, map[string]bool{"success": true})
}

// postLogout removes the cookie. Pages of other origins cannot cause it.
func postLogout(x *protocol.Exchange) error {
	x.Logout()
	return x.Reply(http.StatusOK, map[string]bool{"success": true})
}

func getIcon(x *protocol.Exchange) error {
	x.SetHeader("Content-Type", "image/svg+xml")
	x.SetHeader("Cache-Control", "max-age=86400")
	x.ServeContent("icon.svg", time.Time{}, bytes.NewReader(icon))
	return nil
}
