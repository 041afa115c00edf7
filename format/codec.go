package format

import (
	"math"
	"sync"
	"unsafe"
)

// codec passes over the fields of a record in their order, and either reads or writes each of them. The layout of a
// type of record stands once, in its method layout, which must not change the record when it writes. gperf writes
// little-endian records only.
type codec struct {
	cursor // the bytes left to read
	writes bool
	out    []byte     // the caller's buffer, with the written bytes appended
	typ    Type       // of the record
	misc   Misc       // of the record
	id     []byte     // the sample id at the record's end, when reading
	idType SampleType // sample_type of the sample id; 0: there is none
	idSize int        // bytes of zeros in place of a sample id, when writing
}

// codecs are reused, because a layout is called through an interface.
var codecs = sync.Pool{New: func() any { return new(codec) }}

// run passes over a record with a codec of these values, and returns the codec's values afterwards.
func (c codec) run(rec Record) codec {
	p := codecs.Get().(*codec)
	*p = c
	rec.layout(p)
	c = *p
	*p = codec{}
	codecs.Put(p)
	return c
}

// fields passes over fields that have the sizes of their Go types.
func (c *codec) fields(fields ...any) {
	for _, f := range fields {
		switch p := f.(type) {
		case *uint8:
			passNumber(c, p)
		case *uint16:
			passNumber(c, p)
		case *uint32:
			passNumber(c, p)
		case *int32:
			passNumber(c, p)
		case *uint64:
			passNumber(c, p)
		case *int64:
			passNumber(c, p)
		case *bool:
			v := uint8(0)
			if *p {
				v = 1
			}
			if passNumber(c, &v); !c.writes {
				*p = v != 0
			}
		case *float64:
			v := math.Float64bits(*p)
			if passNumber(c, &v); !c.writes {
				*p = math.Float64frombits(v)
			}
		default:
			panic("format: a field of an unknown type")
		}
	}
}

// passNumber passes over a number.
func passNumber[T uint8 | uint16 | uint32 | int32 | uint64 | int64](c *codec, p *T) {
	if !c.writes {
		*p = T(c.uint(int(unsafe.Sizeof(*p))))
		return
	}
	switch v := uint64(*p); unsafe.Sizeof(*p) {
	case 1:
		c.out = append(c.out, byte(v))
	case 2:
		c.out = c.order.AppendUint16(c.out, uint16(v))
	case 4:
		c.out = c.order.AppendUint32(c.out, uint32(v))
	default:
		c.out = c.order.AppendUint64(c.out, v)
	}
}

// pad passes over n bytes without a meaning: zeros when writing.
func (c *codec) pad(n int) {
	if c.writes {
		c.out = append(c.out, make([]byte, n)...)
	} else {
		c.take(n)
	}
}

// more reports whether fields follow that older versions do not write.
func (c *codec) more() bool { return c.writes || len(c.b) > 0 }

// readAs sets p to whether the record that is read is a t.
func (c *codec) readAs(p *bool, t Type) {
	if !c.writes {
		*p = c.typ == t
	}
}

// flag passes over a bit of the record's misc.
func (c *codec) flag(p *bool, bit Misc) {
	switch {
	case !c.writes:
		*p = c.misc&bit != 0
	case *p:
		c.misc |= bit
	default:
		c.misc &^= bit
	}
}

// allMisc passes over the record's misc. It must come before flag.
func (c *codec) allMisc(p *Misc) {
	if c.writes {
		c.misc = *p
	} else {
		*p = c.misc
	}
}

// bytes passes over n bytes. When writing, it pads a shorter value with zeros.
func (c *codec) bytes(p *[]byte, n int) {
	if !c.writes {
		*p = c.take(n)
		return
	}
	c.out = append(c.out, (*p)[:min(n, len(*p))]...)
	c.pad(n - min(n, len(*p)))
}

// counted passes over bytes whose number n is in the record.
func (c *codec) counted(p *[]byte, n uint64) {
	if c.writes {
		c.out = append(c.out, *p...)
	} else {
		*p = c.entries(n, 1).b
	}
}

// rest passes over the rest of the record.
func (c *codec) rest(p *[]byte) {
	if c.writes {
		c.out = append(c.out, *p...)
	} else {
		*p = c.take(len(c.b))
	}
}

// values passes over n numbers of 64 bits each.
func (c *codec) values(p *Words, n uint64) {
	if c.writes {
		c.out = append(c.out, p.b...)
	} else {
		*p = Words{c.words(n), c.order}
	}
}

// text passes over a string in n bytes, with zeros after it.
func (c *codec) text(p *string, n int) {
	b := []byte(*p)
	c.bytes(&b, n)
	if !c.writes {
		*p = cstring(b)
	}
}

// name passes over a string with a NUL and padding, the record's last field.
func (c *codec) name(p *string) {
	if c.writes {
		c.out = appendName(c.out, *p)
	} else {
		*p = c.cursor.name()
	}
}

// ending passes over a name, the last field, whose NUL may be missing.
func (c *codec) ending(p *string) {
	if c.writes {
		c.name(p)
	} else {
		*p = c.cstring()
	}
}

// end passes over the sample id at the end of a record of the kernel.
func (c *codec) end(p *RecordID) {
	if c.writes {
		p.layout(c, c.idType)
		c.pad(c.idSize)
	} else {
		*p = parseSampleID(c.id, c.order, c.idType)
	}
}

// str passes over a text of the feature sections: its size in bytes, 32 bits, with a NUL and padding to 64 bytes
// (do_write_string of perf), and these bytes.
func (c *codec) str(p *string) {
	if c.writes {
		c.out = appendString(c.out, *p)
	} else {
		*p = c.cursor.str()
	}
}

// listOf passes over a number of 32 bits and as many entries.
func listOf[T any](c *codec, list *[]T, entry func(*codec, *T)) {
	n := uint32(len(*list))
	passNumber(c, &n)
	for i := 0; i < int(n) && !c.short; i++ {
		if !c.writes {
			*list = append(*list, *new(T))
		}
		entry(c, &(*list)[i])
	}
}

// entriesOf passes over a number of 64 bits and as many entries of size bytes each.
func entriesOf[T any](c *codec, size int, list *[]T, entry func(*codec, *T)) {
	n := uint64(len(*list))
	passNumber(c, &n)
	if c.writes {
		for i := range *list {
			entry(c, &(*list)[i])
		}
		return
	}
	e := codec{cursor: c.entries(n, size)}
	if len(e.b) == 0 {
		return
	}
	*list = make([]T, len(e.b)/size)
	for i := range *list {
		entry(&e, &(*list)[i])
	}
}

// records makes an empty record of each type.
var records = [TypePerfEnd]func() Record{
	TypeMmap: empty[Mmap], TypeLost: empty[Lost], TypeComm: empty[Comm], TypeExit: empty[Exit],
	TypeThrottle: empty[Throttle], TypeUnthrottle: empty[Throttle], TypeFork: empty[Fork], TypeRead: empty[Read],
	TypeMmap2: empty[Mmap], TypeAux: empty[Aux], TypeItraceStart: empty[ItraceStart],
	TypeLostSamples: empty[LostSamples], TypeSwitch: empty[Switch], TypeSwitchCPUWide: empty[Switch],
	TypeNamespaces: empty[Namespaces], TypeKSymbol: empty[KSymbol], TypeBPFEvent: empty[BPFEvent],
	TypeCgroup: empty[Cgroup], TypeTextPoke: empty[TextPoke], TypeAuxOutputHWID: empty[AuxOutputHWID],
	TypeCallchainDeferred: empty[CallchainDeferred],

	TypeHeaderAttr: empty[HeaderAttr], TypeHeaderEventType: empty[HeaderEventType],
	TypeHeaderTracing: empty[HeaderTracing], TypeHeaderBuildID: empty[HeaderBuildID],
	TypeFinishedRound: empty[FinishedRound], TypeFinishedInit: empty[FinishedInit], TypeIDIndex: empty[IDIndex],
	TypeAuxtraceInfo: empty[AuxtraceInfo], TypeAuxtrace: empty[Auxtrace], TypeAuxtraceError: empty[AuxtraceError],
	TypeThreadMap: empty[ThreadMap], TypeCPUMap: empty[CPUMap], TypeStatConfig: empty[StatConfig],
	TypeStat: empty[Stat], TypeStatRound: empty[StatRound], TypeEventUpdate: empty[EventUpdate],
	TypeTimeConv: empty[TimeConv], TypeHeaderFeature: empty[HeaderFeature], TypeCompressed: empty[Compressed],
	TypeCompressed2: empty[Compressed], TypeBPFMetadata: empty[BPFMetadata], TypeSchedstatCPU: empty[SchedstatCPU],
	TypeSchedstatDomain: empty[SchedstatDomain],
}

func empty[T any, P interface {
	*T
	Record
}]() Record {
	return P(new(T))
}
