// Package run is what every program does the same way: to begin, to serve, to
// be told to stop, and to end with a code.
//
//	main.go         Main: the exit codes, and the signals that end a program
//	help.go         help and completion of what there is, and of nothing else
//	flags.go        mistyped flags; Files: flags that are paths, for shells
//	ignored.go      Ignored: flags of other programs that mean nothing here
//	group.go        Group: what lives and ends together; ServeUntil: a listener that comes late
//	listen.go       CheckTCP, ListenTCP, ListenUnix, ListenUnixMode
//	keep.go         a socket that is gone from its path is opened there again
//	bound.go        Bound: how many connections a listener has
//	lock.go         Lock: one process at a time
//	serve.go        ServeHTTP, ServeHTTPS, ServeGRPC: how a member serves a listener
//	certificate.go  Certificate: TLS that follows its files
//	pem.go          what is in those files
//	ask.go          AskUnix: what another program serves on a socket, and why it does not (Asked)
//	pause.go        Pause: to wait, but no longer than a context
//	printable.go    Printable: what others wrote, for a terminal
//	checks.go       Checks: /healthz, /livez and /readyz
//	notify.go       Supervised: what systemd is told of a process that it started
//	metrics.go      NewRegistry, MetricsMux: /metrics
//	heap.go         StillHeap, KeepToLimit: the garbage collector of a large, still heap, and of one that has a limit
//
// A program opens its listeners, adds what it does to a Group, and runs it: the
// Example is one.
//
// Errors that a program may want to give an exit code of its own are ErrUsage
// and ErrInUse.
package run
