package codec

// NestedDeeper reports whether text, as far as it is JSON, nests deeper than limit. The decoder's own limit is 10000 levels.
func NestedDeeper(text []byte, limit int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text) && depth <= limit; i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
	}
	return depth > limit
}
