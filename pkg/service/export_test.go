package service

// AdminRoutes lists what the admin server serves, as patterns of [net/http.ServeMux].
func AdminRoutes(o Options) []string {
	var patterns []string
	for _, r := range adminRoutes(o, new(readiness)) {
		patterns = append(patterns, r.pattern)
	}
	return patterns
}
