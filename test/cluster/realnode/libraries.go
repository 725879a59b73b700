package realnode

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// library is a shared library, or the program that loads them.
type library struct{ inside, outside string }

// libraryDirs are where Debian's loader looks, for the machines that we know.
var libraryDirs = []string{"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}

// libraries lists what a program needs at run time; a static one, or one that
// is no program, needs nothing.
func libraries(program string) (list []library, err error) {
	found := map[string]bool{}
	var visit func(path string) error
	visit = func(path string) error {
		f, err := elf.Open(path)
		var format *elf.FormatError
		if errors.As(err, &format) || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		if loader := interpreter(f); loader != "" && !found[loader] {
			found[loader] = true
			list = append(list, library{loader, loader})
		}
		needed, err := f.ImportedLibraries()
		if err != nil {
			return err
		}
		for _, name := range needed {
			if found[name] {
				continue
			}
			found[name] = true
			outside, err := findLibrary(name)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			list = append(list, library{filepath.Join("/lib", name), outside})
			if err := visit(outside); err != nil {
				return err
			}
		}
		return nil
	}
	return list, visit(program)
}

func interpreter(f *elf.File) string {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			data, err := io.ReadAll(p.Open())
			if err == nil {
				return strings.TrimRight(string(data), "\x00")
			}
		}
	}
	return ""
}

func findLibrary(name string) (string, error) {
	for _, dir := range libraryDirs {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("library %s is in none of %s", name, strings.Join(libraryDirs, ", "))
}
