package jsontype

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// few is as much of a value as is told.
const few = 40

// Text says what a value is, what is wanted instead, and how that is written:
// `is a string, "3"; an integer is wanted: write 3, without quotes`. Of a field
// that does not exist the caller knows more.
func (m Misfit) Text() string {
	switch {
	case m.Unknown:
		return "is no field of " + m.Type.Name()
	case isInt(m.Type) && isWhole(m.Value):
		return fmt.Sprintf("is %s, and no more than %d bits are kept of it; give a smaller number", asJSON(m.Value), m.Type.Bits())
	}
	return "is " + m.what() + "; " + m.wanted()
}

func (m Misfit) wanted() string {
	switch m.Type {
	case reflect.TypeFor[resource.Quantity]():
		return "a quantity is wanted, as 100m or 2Gi"
	case reflect.TypeFor[intstr.IntOrString]():
		return "an integer or a string is wanted, as 8080, http or 25%"
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return "a time is wanted, as 2026-01-31T12:00:00Z"
	}
	switch kind := m.Type.Kind(); {
	case readsItself(m.Type):
	case kind == reflect.Struct, kind == reflect.Map:
		return "an object is wanted"
	case kind == reflect.String:
		return m.quoted()
	case kind == reflect.Bool:
		return "true or false is wanted"
	case isInt(m.Type):
		if text, ok := m.Value.(string); ok && isInteger(text) {
			return "an integer is wanted: write " + text + ", without quotes"
		}
		return "an integer is wanted"
	case kind == reflect.Slice && m.Type.Elem().Kind() == reflect.Uint8:
		return "text in base64 is wanted"
	case m.err == nil:
		return "a list is wanted: begin it with -"
	}
	return fmt.Sprintf("a %s is wanted: %v", m.Type.Name(), m.err)
}

// quoted says how a string is written; of lists only an annotation's is one. What is not
// known as it is written is not told as another text.
func (m Misfit) quoted() string {
	switch v := m.Value.(type) {
	case bool, int64, float64:
		if m.Written != "" && len(m.Written) <= few {
			return fmt.Sprintf("a string is wanted: write %q, in quotes", m.Written)
		}
		return "a string is wanted: put it in quotes, as it is meant"
	case []any:
		text := asJSON(v)
		if strings.Contains(m.Path, "metadata.annotations[") && len(text) <= few && !slices.ContainsFunc(v, notText) {
			return fmt.Sprintf("a string is wanted: write '%s', in quotes", text)
		}
	}
	return "a string is wanted"
}

func notText(v any) bool {
	_, ok := v.(string)
	return !ok
}

// what a value is, with the value where it is short, and is as it is written.
func (m Misfit) what() string {
	written, text := m.Written, m.Type.Kind() == reflect.String && !readsItself(m.Type)
	if len(written) > few {
		written = ""
	}
	switch v := m.Value.(type) {
	case bool:
		switch value := strconv.FormatBool(v); {
		case written != "" && written != value:
			return written + ", which YAML takes for " + value
		case written == "" && text:
			return "a boolean"
		default:
			return value
		}
	case int64, float64:
		switch {
		case written != "":
			return written + ", a number"
		case text:
			return "a number"
		}
	}
	return what(m.Value)
}

func what(v any) string {
	switch v := v.(type) {
	case string:
		if len(v) > few {
			return fmt.Sprintf("a string, %q...", strings.ToValidUTF8(v[:few], ""))
		}
		return fmt.Sprintf("a string, %q", v)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return asJSON(v) + ", a number"
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

func isWhole(v any) bool {
	n, isFloat := v.(float64)
	_, isInt := v.(int64)
	return isInt || isFloat && n == math.Trunc(n)
}

func isInteger(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}
