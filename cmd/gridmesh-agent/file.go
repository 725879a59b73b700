package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/gridmesh/gridmesh/internal/atomicfile"
	"github.com/gridmesh/gridmesh/internal/near"
	"github.com/gridmesh/gridmesh/internal/run"
	"github.com/gridmesh/gridmesh/node"
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

// maxMistakes bounds the mistakes of a file that are told.
const maxMistakes = 20

// takeFile sets the flags that a file names and nobody has given, and tells its mistakes.
func takeFile(text []byte, flags *pflag.FlagSet) error {
	said, err := readEntries(text)
	if err != nil {
		return err
	}
	if version, kind := textOf(said, "apiVersion"), textOf(said, "kind"); version != fileVersion || kind != fileKind {
		return fmt.Errorf("has apiVersion %q and kind %q; it is to begin with apiVersion: %s and kind: %s", version, kind, fileVersion, fileKind)
	}
	lines := map[string]int{}
	var errs []error
	for _, e := range said {
		err := error(nil)
		switch first, twice := lines[e.key]; {
		case twice:
			err = fmt.Errorf("is in line %d already; keep one of them", first)
		case e.key == "apiVersion" || e.key == "kind": // above
		default:
			err = e.take(flags)
		}
		lines[e.key] = cmp.Or(lines[e.key], e.line)
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: key %q: %w", e.line, e.key, err))
		}
		if len(errs) == maxMistakes {
			errs = append(errs, errors.New("and perhaps more: these are the first mistakes"))
			break
		}
	}
	return errors.Join(errs...)
}

// entry is a key of a file and what stands behind it.
type entry struct {
	key   string
	line  int
	value *yaml.Node
}

// readEntries reads one document of YAML without making anything of its values: YAML
// has 15 for 0017, true for yes, and a thousand times as much for a file of aliases.
func readEntries(text []byte) (said []entry, err error) {
	documents := yaml.NewDecoder(bytes.NewReader(text))
	var document, another yaml.Node
	if err := documents.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	switch err := documents.Decode(&another); {
	case err == nil:
		return nil, fmt.Errorf("line %d: a second document begins here; keep one, without a line of ---", another.Line)
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	top := document.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == nullTag { // comments alone
		return nil, nil
	}
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: is no mapping; each line is to be a flag's name, a colon and its value", top.Line)
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key := top.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			return nil, fmt.Errorf("line %d: a key is no flag's name; an alias, a merge or a list cannot be one", key.Line)
		}
		said = append(said, entry{key.Value, key.Line, top.Content[i+1]})
	}
	return said, nil
}

// textOf is what a file says of itself, or nothing.
func textOf(said []entry, key string) string {
	for _, e := range said {
		if e.key == key && e.value.Kind == yaml.ScalarNode {
			return e.value.Value
		}
	}
	return ""
}

// take sets one flag.
func (e *entry) take(flags *pflag.FlagSet) error {
	f := flags.Lookup(e.key)
	if f == nil || slices.Contains(notInFile, e.key) {
		return unknownKey(e.key, flags)
	}
	list, err := texts(e.value)
	if err != nil {
		return err
	}
	several, many := f.Value.(pflag.SliceValue)
	switch isList := e.value.Kind == yaml.SequenceNode; {
	case isList && !many:
		return errors.New("has one value, and no list")
	case f.Changed: // what is given beside the file wins
		return nil
	case isList:
		err = several.Replace(list)
	default:
		err = f.Value.Set(list[0])
	}
	if err != nil {
		return fmt.Errorf("%q is no %s; write it as --%s is given on a command line: %w", list, f.Value.Type(), e.key, err)
	}
	return flags.SetAnnotation(e.key, lineOf, []string{strconv.Itoa(e.line)})
}

// lineOf is the annotation of a flag that has its value from a line of the file of --config.
const lineOf = "gridmesh.line"

// named is a flag in what is said of a mistake.
var named = regexp.MustCompile(`--([a-z][a-z0-9-]*)`)

// place says behind each mistake in flags where the file of --config has those that it names:
// what is wrong with a value shows only when it is used.
func (c *config) place(err error, flags *pflag.FlagSet) error {
	if !errors.Is(err, run.ErrUsage) && !errors.Is(err, node.ErrUnfit) {
		return err
	}
	said := strings.Split(err.Error(), "\n")
	for i, mistake := range said {
		var lines []string
		for _, name := range named.FindAllStringSubmatch(mistake, -1) {
			if f := flags.Lookup(name[1]); f != nil && len(f.Annotations[lineOf]) > 0 && !slices.Contains(lines, f.Annotations[lineOf][0]) {
				lines = append(lines, f.Annotations[lineOf][0])
			}
		}
		if len(lines) > 0 {
			said[i] += fmt.Sprintf(" (%s, line %s)", c.file, strings.Join(lines, " and "))
		}
	}
	return &placed{strings.Join(said, "\n"), err}
}

// placed is an error with where its flags stand.
type placed struct {
	text string
	err  error
}

func (p *placed) Error() string { return p.text }
func (p *placed) Unwrap() error { return p.err }

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
	return fmt.Errorf("is not known%s; keys are the names of the flags that gridmesh-agent --help lists", meant)
}

const nullTag = "!!null"

// texts are the texts of a value, as they stand in the file.
func texts(value *yaml.Node) (list []string, err error) {
	items := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		items = value.Content
	}
	for _, n := range items {
		switch {
		case n.Kind == yaml.AliasNode:
			err = errors.New("has an alias; write what it stands for")
		case n.Style&yaml.TaggedStyle != 0:
			err = fmt.Errorf("has a tag, %s; leave it out, values are taken as they are written", n.Tag)
		case n.Kind != yaml.ScalarNode:
			err = errors.New("is no text, number, true or false, nor a list of these")
		case n.Tag == nullTag:
			err = errors.New(`has no value; give one, in quotes where it is a word for none or empty (""), or leave the key out`)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, n.Value)
	}
	return list, nil
}
