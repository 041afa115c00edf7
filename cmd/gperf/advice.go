package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"gperf/bpf"
	"gperf/internal/archive"
	"gperf/record"
	"gperf/record/doctor"
	"gperf/record/probe"
	"gperf/record/probe/kernel"
	"gperf/record/programs"
	"gperf/record/tracefs"
	"gperf/report/annotate"
)

// hinter is an error with a hint of its own.
type hinter interface{ Hint() string }

// advice returns complete lines that say what to do about an error, "" if it has nothing to say.
type advice func(err error) string

// of returns the advice for errors of a type.
func of[E error](say func(E) string) advice {
	return func(err error) string {
		var e E
		if errors.As(err, &e) {
			return say(e)
		}
		return ""
	}
}

// is returns the advice for an error.
func is(target error, say string) advice {
	return func(err error) string {
		if errors.Is(err, target) {
			return say
		}
		return ""
	}
}

// allAdvice lists the advice. The first one that has something to say counts.
var allAdvice = []advice{
	func(err error) string {
		var own hinter
		if errors.As(err, &own) {
			return own.Hint()
		}
		return ""
	},

	// Recording.
	is(record.ErrNoPacket,
		"Events with packets are skb:*, net:* and most of tcp:*; packet:drops are all that lose packets.\n"),
	is(programs.ErrNoDroppers,
		"`bpftool net` lists the programs of devices. Programs that are loaded later are not recorded.\n"),
	of(debugHint),
	of(openHint),
	of(func(e *tracefs.NotFoundError) string { return line(doctor.This().WhyNoTracefs(e.Err)) }),
	of(ringHint),
	of(outputHint),
	of(commandHint),
	of(func(*record.FreqError) string {
		return "         The limit can be raised via /proc/sys/kernel/perf_event_max_sample_rate;\n" +
			"         the kernel lowers it if sampling takes too long.\n"
	}),
	func(err error) string {
		if errors.Is(err, record.ErrKernelHidden) {
			return line(doctor.This().WhyHidden())
		}
		return ""
	},
	is(record.ErrNoClock, "`gperf report --no-idle` leaves out the samples of CPUs without work.\n"),
	of(func(*kernel.TypesError) string { return noTypes }),
	of(samplerHint),
	is(bpf.ErrNoFirewall,
		"Without these modules, no rule can drop packets. Load one, or add a rule (nft, iptables).\n"),
	of(unknownHint),

	// Probes.
	of(functionHint),
	of(kernelFunctionHint),
	of(accessHint),
	of(installHint),
	of(func(e *probe.ExistsError) string {
		return fmt.Sprintf("Delete it (gperf probe --del %s), or add another one with a numbered name (-f).\n", e.Event)
	}),
	of(func(*record.LeftoversError) string { return "`gperf probe --del` removes them.\n" }),
	of(func(e *record.NoHopError) string { return inlinedHint(e.Glob) }),
	of(followHint),

	// Reading.
	is(archive.ErrRepacked, "Unpack it (unzip FILE -d DIR) and read it there: -i DIR/perf.data --symfs DIR.\n"),
	is(archive.ErrDamaged, "Copy it again, or pack it again where it was recorded (gperf archive).\n"),
	is(archive.ErrRedirect, "Name the address on the other host, if you trust it.\n"),
	is(archive.ErrChanged, "Run the command again.\n"),
	of(func(*tls.CertificateVerificationError) string {
		return "Add the certificate of its authority to those of the system, or name a file: SSL_CERT_FILE=ca.pem.\n"
	}),
	of(functionsHint),
	of(func(e *annotate.NoSamplesError) string {
		if e.Calls == 0 {
			return ""
		}
		return fmt.Sprintf("%d samples were taken in its callees: -g counts its calls.\n", e.Calls)
	}),
	of(codeHint),

	is(syscall.EMFILE, moreFilesHint+"\n"),
}

// hintOf returns the advice about an error, or "".
func hintOf(err error) string {
	for _, say := range allAdvice {
		if text := say(err); text != "" {
			return text
		}
	}
	return ""
}

// moreFilesHint is the hint for too many open files.
const moreFilesHint = "Raise the limit of open files (ulimit -n)."

// inlinedHint is the advice about a function of the kernel that does not exist.
func inlinedHint(function string) string {
	return fmt.Sprintf("It may be inlined everywhere, or belong to a module that is not loaded;\n"+
		"gperf list 'kprobe:*%s*' lists similar functions.\n", strings.Trim(function, "*"))
}

func samplerHint(e *programs.SamplerError) string {
	switch {
	case kernel.HaveTypes() != nil:
		return noTypes
	case errors.Is(e, syscall.EMFILE):
		return "Each raw tracepoint needs three open files. Raise the limit (ulimit -Hn, as root), or name fewer.\n"
	}
	return ""
}

// wrongUse is an error that says whether the command line caused it: then the exit code is exitUsage.
type wrongUse interface{ WrongUse() bool }

// codeOf returns the exit code for an error.
func codeOf(err error) int {
	var of wrongUse
	if errors.As(err, &of) && of.WrongUse() {
		return exitUsage
	}
	return exitError
}
