package protocol

import (
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
)

// LoginCookie is the cookie of a login. Its value is a ticket of the keyring, not an API key.
const LoginCookie = "agentbus_login"

// loginTime is how long a login is valid.
const loginTime = 12 * time.Hour

// Login lets the caller's browser send a cookie in place of the API key, to routes with Cookie. Without authentication it
// sets none.
func (x *Exchange) Login() error {
	if x.host.Keys == nil {
		return nil
	}
	ticket, err := x.host.Keys.Ticket(x.Principal().KeyID, x.host.Bus.Now().Add(loginTime))
	if err != nil {
		return err
	}
	x.setLogin(ticket, int(loginTime.Seconds()))
	return nil
}

// Logout removes the cookie of a login.
func (x *Exchange) Logout() { x.setLogin("", -1) }

// setLogin sets the cookie. Pages of other sites never cause it to be sent, and no script can read it.
func (x *Exchange) setLogin(value string, maxAge int) {
	r := x.call.Request
	http.SetCookie(x.call.Writer, &http.Cookie{ //nolint:gosec // Secure, unless the page was loaded without TLS
		Name: LoginCookie, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: secure(r),
	})
}

// LoginTicket returns the ticket of a request's cookie; "" without one. It fails for a request that a page of another origin
// may have caused: a request with an effect, or for a WebSocket, must have an Origin, which must be that of the gateway.
func LoginTicket(r *http.Request) (string, error) {
	cookie, err := r.Cookie(LoginCookie)
	if err != nil {
		return "", nil //nolint:nilerr // there is none
	}
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	if site != "" && site != "same-origin" && site != "none" {
		return "", foreignLogin()
	}
	safe := (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Upgrade") == ""
	if origin == "" && safe {
		return cookie.Value, nil
	}
	if origin != "http://"+r.Host && origin != "https://"+r.Host {
		return "", foreignLogin()
	}
	return cookie.Value, nil
}

func foreignLogin() error {
	return apierr.New(apierr.AuthFailed, "the cookie of a login counts for pages of this gateway only; send an API key")
}
