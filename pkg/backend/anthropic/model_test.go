package anthropic

import "testing"

func TestTraits(t *testing.T) {
	t.Parallel()
	budget := traits{sampling: true, forced: true}
	newest := traits{adaptive: true, effort: true, preserved: true, always: true}
	for _, tt := range []struct {
		name string
		want traits
	}{
		{"claude-3-5-sonnet-20241022", budget},
		{"claude-2.1", budget},
		{"claude-opus-4-20250514", budget},
		{"claude-sonnet-4-5@20250929", budget},
		{"us.anthropic.claude-haiku-4-5-20251001-v1:0", budget},
		{"deepseek-v4", budget},
		{"claude-opus-4-5", traits{sampling: true, forced: true, effort: true}},
		{"claude-opus-4-6", traits{adaptive: true, effort: true, sampling: true, forced: true}},
		{"claude-opus-4-8", traits{adaptive: true, effort: true, forced: true}},
		{"claude-sonnet-5", traits{adaptive: true, effort: true, forced: true}},
		{"claude-fable-5", traits{adaptive: true, effort: true, forced: true, always: true}},
		{"claude-haiku-5-5", traits{adaptive: true, effort: true, forced: true, preserved: true}},
		{"claude-opus-5-5[1m]", newest},
		{"anthropic.claude-sonnet-5-5-20260901-v1:0", newest},
		{"claude-fable-5-2", newest},
		{"claude-someday", newest},
	} {
		if got := traitsOf(tt.name); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
