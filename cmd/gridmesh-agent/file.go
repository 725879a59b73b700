package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/near"
	"github.com/gridmesh/gridmesh/internal/run"
)

// What a file of --config says that it is.
const (
	fileVersion = "config.gridmesh.io/v1alpha1"
	fileKind    = "AgentConfig"
)

// maxFile bounds a file of --config.
const maxFile = 1 << 20

// notInFile are flags that are given beside a file: where it is, and what is asked for once.
var notInFile = []string{"config", "help", "version"}

// readFile takes the flags that are not given from the file of --config, if there is one.
func (c *config) readFile(flags *pflag.FlagSet) error {
	if c.file == "" {
		return nil
	}
	text, info, err := atomicfile.ReadAny(c.file, maxFile)
	switch {
	case err != nil:
	case !info.Mode().IsRegular() || info.Size() > maxFile || len(text) > maxFile:
		err = fmt.Errorf("is no file of up to %d bytes", maxFile)
	default:
		err = takeFile(text, flags)
	}
	if err != nil {
		return fmt.Errorf("%w: --config %s: %w", run.ErrUsage, c.file, err)
	}
	return nil
}

// takeFile sets the flags that a file names and nobody has given, and tells all mistakes.
func takeFile(text []byte, flags *pflag.FlagSet) error {
	said := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &said, func(d *json.Decoder) *json.Decoder { d.UseNumber(); return d }); err != nil {
		return err
	}
	version, _ := said["apiVersion"].(string)
	kind, _ := said["kind"].(string)
	if version != fileVersion || kind != fileKind {
		return fmt.Errorf("has apiVersion %q and kind %q; it is to begin with apiVersion: %s and kind: %s", version, kind, fileVersion, fileKind)
	}
	delete(said, "apiVersion")
	delete(said, "kind")
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(said)) {
		if err := takeKey(key, said[key], flags); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// takeKey sets one flag.
func takeKey(key string, value any, flags *pflag.FlagSet) error {
	f := flags.Lookup(key)
	if f == nil || slices.Contains(notInFile, key) {
		return unknownKey(key, flags)
	}
	list, err := texts(value)
	if err != nil {
		return fmt.Errorf("key %s: %w", key, err)
	}
	several, many := f.Value.(pflag.SliceValue)
	switch _, isList := value.([]any); {
	case isList && !many:
		return fmt.Errorf("key %s: has one value, and no list", key)
	case f.Changed: // what is given beside the file wins
		return nil
	case isList:
		err = several.Replace(list)
	default:
		err = f.Value.Set(list[0])
	}
	if err != nil {
		return fmt.Errorf("key %s: %w", key, err)
	}
	return nil
}

// unknownKey names a key that is no flag, and the one that may have been meant.
func unknownKey(key string, flags *pflag.FlagSet) error {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notInFile, f.Name) {
			names = append(names, f.Name)
		}
	})
	meant := ""
	if like := near.Word(key, names); like != "" {
		meant = fmt.Sprintf("; did you mean %s?", like)
	}
	return fmt.Errorf("key %q is not known%s; keys are the names of the flags that gridmesh-agent --help lists", key, meant)
}

var errNoValue = errors.New("is no text, number, true or false, nor a list of these")

// texts are a value as a flag would be given it.
func texts(value any) ([]string, error) {
	switch v := value.(type) {
	case string:
		return []string{v}, nil
	case bool, json.Number:
		return []string{fmt.Sprint(v)}, nil
	case []any:
		list := []string{}
		for _, one := range v {
			text, err := texts(one)
			if _, nested := one.([]any); nested || err != nil {
				return nil, errNoValue
			}
			list = append(list, text[0])
		}
		return list, nil
	}
	return nil, errNoValue
}
