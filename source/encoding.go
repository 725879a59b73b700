package source

import "bytes"

// encoding says what bytes are that no YAML is read from, and the cure; nothing
// where they may be text. A byte order mark of UTF-8 is nobody's concern.
func encoding(data []byte) (what, cure string) {
	has := func(mark string) bool { return bytes.HasPrefix(data, []byte(mark)) }
	switch {
	case has("\xff\xfe\x00\x00"), has("\x00\x00\xfe\xff"):
		return "UTF-32", "write it as UTF-8: iconv -f UTF-32 -t UTF-8 F"
	case has("\xff\xfe"), has("\xfe\xff"):
		return "UTF-16, as PowerShell's > writes it", "write it as UTF-8: ... | Out-File -Encoding utf8 F"
	case has("\x1f\x8b"):
		return "compressed", "say: gzip -dc F"
	case bytes.IndexByte(data[:min(len(data), 1<<10)], 0) >= 0:
		return "no text in UTF-8: it has NUL bytes, as UTF-16 and UTF-32 without a byte order mark have", "write it as UTF-8: iconv -f UTF-16LE -t UTF-8 F"
	}
	return "", ""
}
