package edge

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SetClock sets the wall clock of a running program, and of it alone, ahead of the
// machine's, or behind where it is negative. Its monotonic clock goes on, as after
// settimeofday. What the kernel writes down itself, as the times of files, has the
// machine's clock.
//
// The wall clock is in no namespace. But programs read it by a function that the
// kernel maps into each of them, the vDSO, through a pointer that Go's runtime and
// glibc keep among their data: it leads to a function of ours from now on, which
// asks the vDSO's and adds to what that says. The error is ErrPaused where that has to
// wait for whoever stopped the program.
func (p *Process) SetClock(ahead time.Duration) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("set the clock of %s: on amd64 only, not on %s: %w", p.Name, runtime.GOARCH, errors.ErrUnsupported)
	}
	for end := time.Now().Add(endPatience); ; time.Sleep(time.Millisecond) {
		switch err := p.setClock(ahead); {
		case err == nil:
			return nil
		case errors.Is(err, errNotYet) && p.Running() && p.stopped():
			return fmt.Errorf("set the clock of %s: %w", p.Name, ErrPaused)
		case !errors.Is(err, errNotYet) || !p.Running() || time.Now().After(end):
			return fmt.Errorf("set the clock of %s: %w", p.Name, err)
		}
	}
}

func (p *Process) setClock(ahead time.Duration) error {
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.PID()), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	if p.clock == 0 {
		at, err := giveClock(mem, p.PID())
		if err != nil {
			return err
		}
		p.clock = at
	}
	_, err = mem.WriteAt(word(uint64(ahead/time.Second)), p.clock)
	return err
}

// ErrPaused: a program was stopped before it looked for its clock, and cannot be given one
// until it goes on. What it reads then is the machine's.
var ErrPaused = errors.New("it is stopped, and had not looked for its clock before")

// errNotYet: a program that has just begun has not looked for the vDSO.
var errNotYet = errors.New("it has no vDSO, or no pointer to it")

// ourClock is the function: like clock_gettime, of which CLOCK_REALTIME, 0, gets
// seconds added. Behind it are the vDSO's address and the seconds, 8 bytes each.
var ourClock = []byte{
	0x57,                   // push %rdi
	0x56,                   // push %rsi
	0x48, 0x83, 0xec, 0x08, // sub $8, %rsp
	0xff, 0x15, 28, 0, 0, 0, // call *address(%rip)
	0x48, 0x83, 0xc4, 0x08, // add $8, %rsp
	0x5e,       // pop %rsi
	0x5f,       // pop %rdi
	0x85, 0xff, // test %edi, %edi
	0x75, 0x0a, // jne to the end
	0x48, 0x8b, 0x0d, 19, 0, 0, 0, // mov seconds(%rip), %rcx
	0x48, 0x01, 0x0e, // add %rcx, (%rsi)
	0xc3,                                     // ret
	0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, // up to 40
}

// mapping is a part of a process's memory. What has no file of its own and follows
// a file's is that file's: variables that begin as zero.
type mapping struct {
	from, to int64
	rights   string
	path     string
	bss      bool // such variables
}

// data reports whether variables are in it.
func (m mapping) data() bool {
	return strings.HasPrefix(m.path, "/") && strings.HasPrefix(m.rights, "r") && strings.HasSuffix(m.rights, "-p")
}

// giveClock gives a program the function, and returns where its seconds are.
func giveClock(mem *os.File, pid int) (seconds int64, err error) {
	list, err := mappings(pid)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(list, func(m mapping) bool { return m.path == "[vdso]" })
	if i < 0 {
		return 0, errNotYet
	}
	vdso := list[i]
	image := make([]byte, vdso.to-vdso.from)
	if _, err := mem.ReadAt(image, vdso.from); err != nil {
		return 0, errors.Join(errNotYet, err) // it becomes another program at this moment
	}
	theirs, err := clockGettime(vdso, image)
	if err != nil {
		return 0, err
	}
	code := slices.Concat(ourClock, word(theirs), word(0))
	if room := image[len(image)-len(code):]; len(bytes.Trim(room, "\x00")) > 0 && !bytes.HasPrefix(room, ourClock) {
		return 0, errors.New("there is no room behind the vDSO")
	}
	ours := vdso.to - int64(len(code))
	if _, err := mem.WriteAt(code, ours); err != nil {
		return 0, err
	}
	return vdso.to - wordSize, replace(mem, pointers(pid, list), word(theirs), word(uint64(ours)))
}

const wordSize = 8

// word is a number as it is in memory.
func word(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// pointers are where a program may have pointers to the vDSO. Those of a Go program
// are its own: glibc, which may be beside it, has one earlier.
func pointers(pid int, list []mapping) []mapping {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err == nil {
		_, err = buildinfo.ReadFile(fmt.Sprintf("/proc/%d/exe", pid))
	}
	return slices.DeleteFunc(slices.Clone(list), func(m mapping) bool { return !m.data() || err == nil && m.path != exe })
}

// replace puts a pointer in the place of another, or finds it there already.
func replace(mem *os.File, list []mapping, old, now []byte) error {
	found := false
	for _, m := range list {
		data := make([]byte, m.to-m.from)
		if _, err := mem.ReadAt(data, m.from); err != nil {
			continue // beyond the end of the file
		}
		found = found || bytes.Contains(data, now) // by an attempt before
		for at := 0; ; at++ {
			next := bytes.Index(data[at:], old)
			if next < 0 {
				break
			}
			at += next
			found = true
			if _, err := mem.WriteAt(now, m.from+int64(at)); err != nil {
				return err
			}
		}
	}
	if !found {
		return errNotYet
	}
	return nil
}

// clockGettime is the address of the vDSO's clock_gettime.
func clockGettime(vdso mapping, image []byte) (uint64, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, fmt.Errorf("read the vDSO: %w", err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("read the vDSO: %w", err)
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			return uint64(vdso.from) + s.Value, nil
		}
	}
	return 0, errors.New("the vDSO has no clock_gettime")
}

func mappings(pid int) (list []mapping, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			return nil, fmt.Errorf("read %q", line)
		}
		from, to, _ := strings.Cut(fields[0], "-")
		m := mapping{rights: fields[1]}
		// Half of all addresses are the kernel's, as that of vsyscall: they do not fit.
		if m.from, err = strconv.ParseInt(from, 16, 64); err != nil {
			continue
		}
		if m.to, err = strconv.ParseInt(to, 16, 64); err != nil {
			continue
		}
		if n := len(list); len(fields) > 5 {
			m.path = fields[5]
		} else if n > 0 && list[n-1].to == m.from && !list[n-1].bss {
			m.path, m.bss = list[n-1].path, true
		}
		list = append(list, m)
	}
	return list, nil
}
