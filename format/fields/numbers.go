package fields

import (
	"maps"
	"slices"
	"strings"
)

// Names are names of numbers.
type Names map[string]int64

// NamesOf returns the names of the numbers that fields of this name contain, of all kernel events and of gperf's
// own: Ethernet types, IP protocols, error numbers. It returns nil for most fields.
func NamesOf(field string) Names {
	switch field {
	case "protocol":
		return ethertypes
	case "proto":
		return protocols
	case "ret":
		return negatedErrors
	}
	return nil
}

// NumberName returns the name that a number of a field is shown with, "" if it is shown as a number.
func NumberName(field string, number uint64) string {
	names := NamesOf(field)
	if field == "ret" { // most are no errors: ErrorName names these
		return ""
	}
	for name, n := range names {
		if uint64(n) == number {
			return name
		}
	}
	return ""
}

// All returns the names, sorted.
func (n Names) All() []string { return slices.Sorted(maps.Keys(n)) }

// From include/uapi/linux/if_ether.h.
var ethertypes = Names{"IPv4": 0x0800, "ARP": 0x0806, "VLAN": 0x8100, "IPv6": 0x86dd, "MPLS": 0x8847, "PPPoE": 0x8864,
	"LLDP": 0x88cc, "8021AD": 0x88a8}

// From include/uapi/linux/in.h, with the names that flows show.
var protocols = Names{"icmp": 1, "igmp": 2, "ipip": 4, "tcp": 6, "udp": 17, "ipv6": 41, "gre": 47, "esp": 50, "ah": 51,
	"icmp6": 58, "ospf": 89, "pim": 103, "vrrp": 112, "sctp": 132}

// errorNames are the error numbers from 1 on, from include/uapi/asm-generic/errno-base.h and errno.h; _ for none.
const errorNames = `EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK
EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM
ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP _ ENOMSG EIDRM ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH
ENOCSI EL2HLT EBADE EBADR EXFULL ENOANO EBADRQC EBADSLT _ EBFONT ENOSTR ENODATA ETIME ENOSR ENONET ENOPKG EREMOTE
ENOLINK EADV ESRMNT ECOMM EPROTO EMULTIHOP EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD ELIBSCN
ELIBMAX ELIBEXEC EILSEQ ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT
ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET
ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH
EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL EISNAM EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY
EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD ENOTRECOVERABLE ERFKILL EHWPOISON`

var errorsByNumber, negatedErrors = errorTables()

func errorTables() (names []string, negated Names) {
	names, negated = append([]string{""}, strings.Fields(errorNames)...), Names{}
	for n, name := range names {
		if name == "_" {
			names[n] = ""
		}
		if names[n] != "" {
			negated["-"+name] = -int64(n)
		}
	}
	negated["-EWOULDBLOCK"] = negated["-EAGAIN"]
	return names, negated
}

// ErrorNames returns the names that ErrorName returns.
func ErrorNames() []string {
	return slices.DeleteFunc(slices.Clone(errorsByNumber), func(name string) bool { return name == "" })
}

// ErrorName returns the name of the error that a system call returned, ENOENT for -2; "" if it returned none.
func ErrorName(ret int64) string {
	const maxErrno = 4095 // MAX_ERRNO of include/linux/err.h
	if n := -ret; n > 0 && n <= maxErrno && int(n) < len(errorsByNumber) {
		return errorsByNumber[n]
	}
	return ""
}
