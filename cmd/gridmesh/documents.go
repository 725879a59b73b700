package main

import (
	"bytes"
	"fmt"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/source"
)

// anyDocument fails where a path's text has none: a cluster without objects is
// told by an empty List.
func anyDocument(path string, text []byte) error {
	if documented(text) {
		return nil
	}
	how := "is empty"
	if len(bytes.TrimSpace(text)) > 0 {
		how = "has no document, but for comments"
	}
	return fmt.Errorf("%w: %s %s; did the command before the pipe fail?", source.ErrNothing, nameOf(path), how)
}

// anyInFile is anyDocument of a file; one that cannot be read, or is too long, is
// told of with the others.
func anyInFile(path string) error {
	text, info, err := atomicfile.ReadAny(path, source.MaxFile)
	if err != nil || !info.Mode().IsRegular() || info.Size() > source.MaxFile || documented(text) {
		return nil //nolint:nilerr // who reads the manifests says so
	}
	return fmt.Errorf("%w: %s has no document; did the command that wrote it fail?", source.ErrNothing, path)
}

// documented reports whether a text of YAML has more than the marks between
// documents, directives and comments, or null, which is a document of nothing.
func documented(text []byte) bool {
	for line := range bytes.Lines(bytes.TrimPrefix(text, []byte("\ufeff"))) {
		line = bytes.TrimSpace(line)
		if rest, marked := bytes.CutPrefix(line, []byte("---")); marked {
			line = bytes.TrimSpace(rest)
		}
		switch {
		case len(line) == 0, line[0] == '#', line[0] == '%':
		case string(line) == "...", string(line) == "null", string(line) == "~":
		default:
			return true
		}
	}
	return false
}
