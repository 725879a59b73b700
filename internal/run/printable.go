package run

import (
	"strconv"
	"strings"
	"unicode"
)

// Printable quotes what cannot be printed, but for some characters: what others wrote
// moves no terminal's cursor, and begins no line.
func Printable(text, besides string) string {
	text = strings.ToValidUTF8(text, "\uFFFD") // a byte of its own may be a terminal's command
	bad := func(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune(besides, r) }
	if strings.IndexFunc(text, bad) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if bad(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
