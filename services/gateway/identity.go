package gateway

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/auth/oidc"
	"github.com/agentbus/agentbus/pkg/config"
)

// acceptTokens makes keys accept the tokens of the configured identity providers.
func acceptTokens(keys *auth.Keyring, d Deps) error {
	if len(d.Config.Gateway.Identity) == 0 {
		return nil
	}
	var providers []oidc.Provider
	for i, p := range d.Config.Gateway.Identity {
		scopes, err := scopesOf(p)
		if err != nil {
			return fmt.Errorf("gateway.identity[%d].scopes: %w", i, err)
		}
		providers = append(providers, oidc.Provider{
			Issuer: p.Issuer, Audience: p.Audience, Tenant: p.Tenant, TenantClaim: p.TenantClaim, SubjectClaim: p.SubjectClaim,
			Scopes: scopes, ScopesClaim: p.ScopesClaim, Prefix: p.ScopesPrefix,
		})
	}
	client := &http.Client{Transport: http.DefaultTransport, Timeout: oidc.RequestTime}
	keys.AcceptTokens(oidc.NewVerifier(providers, client, d.Bus.Now))
	return nil
}

// scopesOf returns the scopes that all users of a provider have. Without any, a user could do everything, as a key can.
func scopesOf(p config.IdentityProvider) ([]auth.Scope, error) {
	if len(p.Scopes) == 0 {
		return []auth.Scope{auth.ScopeRead, auth.ScopeRun}, nil
	}
	var all []auth.Scope
	for _, name := range p.Scopes {
		if !slices.Contains(auth.Scopes(), auth.Scope(name)) {
			return nil, fmt.Errorf("%q is not one of %v", name, auth.Scopes())
		}
		all = append(all, auth.Scope(name))
	}
	return all, nil
}
