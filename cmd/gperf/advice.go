package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"gperf/internal/archive"
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
var allAdvice = slices.Concat([]advice{ownHint}, recordingAdvice, []advice{
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
})

func ownHint(err error) string {
	var own hinter
	if errors.As(err, &own) {
		return own.Hint()
	}
	return ""
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
