// Package obs holds what every program logs and shows in the same way.
package obs

import (
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
)

// NewLog returns the structured log of a program; verbose adds debug lines.
func NewLog(w io.Writer, verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// version is set by the linker: -X .../internal/obs.version=v1.2.3.
var version = ""

// Version is the program's version, with the commit it was built from.
func Version() string { return once() }

// once is of readVersion: it is asked for at every change.
var once = sync.OnceValue(readVersion)

func readVersion() string {
	text := version
	info, ok := debug.ReadBuildInfo()
	if ok && text == "" && info.Main.Version != "(devel)" {
		text = info.Main.Version // as "go install" builds it, of a tag
	}
	if text == "" {
		text = "devel"
	}
	if !ok {
		return text
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			text = fmt.Sprintf("%s (%s)", text, s.Value[:12])
		}
	}
	return text
}
