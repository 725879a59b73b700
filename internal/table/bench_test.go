package table

import (
	"fmt"
	"testing"
)

// BenchmarkStep is one change of a map, and finding it: against the plain copy
// of docs/adr/0005.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		real := filled(n)
		plain := twin{}
		for k, v := range real.All() {
			plain[k] = v
		}
		b.Run(fmt.Sprintf("table/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			was := real
			for i := 0; b.Loop(); i++ {
				e := was.Edit()
				e.Set(i*7919%n, -i-1)
				is := e.Freeze()
				for k := range was.Changed(is) {
					_ = k
				}
				was = is
			}
		})
		b.Run(fmt.Sprintf("twin/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			was := plain
			for i := 0; b.Loop(); i++ {
				is := was.edit()
				is[i*7919%n] = -i - 1
				for k := range was.changed(is) {
					_ = k
				}
				was = is
			}
		})
	}
}
