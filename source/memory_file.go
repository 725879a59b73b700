package source

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
)

// packed is a version of a file as it is kept.
func packed(text []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // fails for other levels alone
	_, err := w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil // memory takes all
	}
	return slices.Clip(b.Bytes())
}

func unpacked(version []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(version))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, MaxFile))
}

// writeMemory writes the magic, the SHA-256 of what follows, and that.
func writeMemory(path string, all remembers) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(all); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	sum := sha256.Sum256(b.Bytes())
	return atomicfile.Write(path, slices.Concat([]byte(MemoryMagic), sum[:], b.Bytes()))
}

// readMemory is what was kept of a path; none is no error. What cannot be taken apart is set aside.
func readMemory(path, of string) (remembers, error) {
	data, _, err := atomicfile.Read(path, 2*maxMemory)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return remembers{}, nil
	case err != nil && !errors.Is(err, atomicfile.ErrOdd):
		return remembers{}, fmt.Errorf("%w: %w", errNotRead, err)
	}
	var all remembers
	if err == nil {
		all, err = decodeMemory(data)
	}
	if err != nil {
		aside, rename := atomicfile.SetAside(path)
		if rename != nil {
			return remembers{}, errors.Join(err, rename)
		}
		return remembers{}, fmt.Errorf("%s: %w; it was set aside as %s", path, err, aside)
	}
	if filepath.Clean(all.Of) == of {
		return all, nil
	}
	aside, err := atomicfile.SetAside(path)
	return remembers{}, errors.Join(fmt.Errorf("%s is of the directory %s, and was set aside as %s", path, all.Of, aside), err)
}

func decodeMemory(data []byte) (all remembers, err error) {
	rest, is := bytes.CutPrefix(data, []byte(MemoryMagic))
	if !is || len(rest) < sha256.Size {
		return all, errors.New("is not what was kept of manifests")
	}
	sum, rest := rest[:sha256.Size], rest[sha256.Size:]
	if is := sha256.Sum256(rest); !bytes.Equal(is[:], sum) {
		return all, errors.New("is damaged")
	}
	if err := gob.NewDecoder(bytes.NewReader(rest)).Decode(&all); err != nil {
		return remembers{}, fmt.Errorf("cannot be taken apart: %w", err)
	}
	return all, nil
}
