package srcline

import "gperf/internal/dwarf"

// slot is the index in values of a needed attribute's value.
type slot uint8

const (
	slotNone slot = iota
	slotSibling
	slotLow
	slotHigh
	slotRanges
	slotOrigin
	slotSpecification
	slotLinkage
	slotName
	slotCallFile
	slotCallLine
	slotCallColumn
	slotDeclLine
	slotStmtList // this one and the following: of units
	slotCompDir
	slotLanguage
	slotStrOffsetsBase
	slotAddrBase
	slotRnglistsBase
	slotRangesBase
	slotDwoName
	slotDwoID
	numSlots
)

// slots are the slots of attributes with low numbers, which are nearly all.
var slots = [...]slot{
	atSibling: slotSibling, atLowPC: slotLow, atHighPC: slotHigh, atRanges: slotRanges,
	atAbstractOrigin: slotOrigin, atSpecification: slotSpecification,
	atLinkageName: slotLinkage, atName: slotName,
	atCallFile: slotCallFile, atCallLine: slotCallLine, atCallColumn: slotCallColumn, atDeclLine: slotDeclLine,
	atStmtList: slotStmtList, atCompDir: slotCompDir, atLanguage: slotLanguage,
	atStrOffsetsBase: slotStrOffsetsBase, atAddrBase: slotAddrBase,
	atRnglistsBase: slotRnglistsBase, atDwoName: slotDwoName,
}

var highSlots = map[uint64]slot{
	atMIPSLinkageName: slotLinkage, atGNUAddrBase: slotAddrBase, atGNURangesBase: slotRangesBase,
	atGNUDwoName: slotDwoName, atGNUDwoID: slotDwoID,
}

func slotOf(at uint64) slot {
	if at < uint64(len(slots)) {
		return slots[at]
	}
	return highSlots[at]
}

// kind classifies DIEs for the search for code.
type kind uint8

const (
	kindOther     kind = iota // neither the DIE nor its children are code
	kindContainer             // may contain functions
	kindType                  // may contain functions, if the language has methods
	kindFunction
	kindInlined
	kindUnit
)

func kindOf(tag uint64) kind {
	switch tag {
	case tagSubprogram, tagMIPSEntryPoint:
		return kindFunction
	case tagInlinedSubroutine:
		return kindInlined
	case tagLexicalBlock, tagNamespace, tagModule, tagTryBlock, tagCatchBlock, tagWithStmt, tagCommonBlock:
		return kindContainer
	case tagClassType, tagStructureType, tagUnionType, tagInterfaceType:
		return kindType
	case tagCompileUnit, tagPartialUnit, tagTypeUnit, tagSkeletonUnit:
		return kindUnit
	}
	return kindOther
}

// op is a step in reading a DIE's attributes: it skips bytes, and then reads a value of a form, which it stores if the
// attribute has a slot.
type op struct {
	skip     uint32
	form     uint16 // 0: no value
	slot     slot
	size     uint8 // of the value in bytes, if it is a number of fixed size; otherwise 0
	implicit int64 // the value of DW_FORM_implicit_const
}

// abbrev is an abbreviation: the tag and attributes of DIEs. Unneeded attributes are merged into steps that skip them.
type abbrev struct {
	tag      uint64
	kind     kind
	children bool
	plain    bool // the DIE is not needed, and ops[0] skips it completely
	ops      []op
}

// abbrevs is a table of abbreviations, for units of one layout. Codes are usually numbered from 1; other codes are in
// more.
type abbrevs struct {
	list []abbrev
	more map[uint64]*abbrev
}

func (t *abbrevs) get(code uint64) *abbrev {
	if code-1 < uint64(len(t.list)) {
		return &t.list[code-1]
	}
	return t.more[code]
}

// layout is the properties of a unit on which the sizes of forms depend.
type layout struct {
	addr, offset int // sizes in bytes
	version      uint16
}

// fixed returns the size of a form's values in bytes. ok is false if it varies.
func (l layout) fixed(form uint64) (n uint32, ok bool) {
	switch form {
	case formFlagPresent, formImplicitConst:
		return 0, true
	case formData1, formFlag, formRef1, formStrx1, formAddrx1:
		return 1, true
	case formData2, formRef2, formStrx2, formAddrx2:
		return 2, true
	case formStrx3, formAddrx3:
		return 3, true
	case formData4, formRef4, formStrx4, formAddrx4, formRefSup4:
		return 4, true
	case formData8, formRef8, formRefSig8, formRefSup8:
		return 8, true
	case formData16:
		return 16, true
	case formAddr:
		return uint32(l.addr), true
	case formRefAddr:
		if l.version <= 2 {
			return uint32(l.addr), true
		}
		return uint32(l.offset), true
	case formStrp, formSecOffset, formLineStrp, formStrpSup, formGNURefAlt, formGNUStrpAlt:
		return uint32(l.offset), true
	}
	return 0, false
}

// usualAbbrevs is enough for most units.
const usualAbbrevs = 192

// parseAbbrevs reads the table at the cursor, up to its end or the first corrupt entry.
func parseAbbrevs(c *dwarf.Cursor, l layout) *abbrevs {
	t := &abbrevs{list: make([]abbrev, 0, usualAbbrevs)}
	ops := make([]op, 0, 4*usualAbbrevs) // of all abbreviations, in one allocation
	for {
		code := c.ULEB()
		if code == 0 || c.Bad {
			return t
		}
		a := abbrev{tag: c.ULEB()}
		a.children = c.U8() != 0
		a.kind = kindOf(a.tag)
		start := len(ops)
		ops = parseSpecs(c, l, a.kind, a.children, ops)
		if c.Bad {
			return t
		}
		a.ops = ops[start:len(ops):len(ops)]
		a.plain = a.kind == kindOther && !a.children && len(a.ops) == 1 && a.ops[0].form == 0
		switch {
		case code == uint64(len(t.list))+1:
			t.list = append(t.list, a)
		case t.get(code) == nil:
			if t.more == nil {
				t.more = make(map[uint64]*abbrev)
			}
			t.more[code] = new(a)
		}
	}
}

// findAbbrev reads the abbreviation with a code, and skips those before. It returns nil if there is none.
func findAbbrev(c *dwarf.Cursor, l layout, want uint64) *abbrev {
	for {
		code, tag, children := c.ULEB(), c.ULEB(), c.U8() != 0
		if code == 0 || c.Bad {
			return nil
		}
		if code == want {
			kind := kindOf(tag)
			return &abbrev{tag: tag, kind: kind, children: children, ops: parseSpecs(c, l, kind, children, nil)}
		}
		for at, form := uint64(1), uint64(0); at|form != 0 && !c.Bad; {
			if at, form = c.ULEB(), c.ULEB(); form == formImplicitConst {
				c.SLEB()
			}
		}
	}
}

// parseSpecs appends the steps that read an abbreviation's attributes.
func parseSpecs(c *dwarf.Cursor, l layout, kind kind, children bool, ops []op) []op {
	skip := uint32(0)
	for {
		at, form := c.ULEB(), c.ULEB()
		if at == 0 && form == 0 || c.Bad {
			if skip > 0 {
				ops = append(ops, op{skip: skip})
			}
			return ops
		}
		o := op{form: uint16(min(form, 0xffff)), slot: kind.slot(slotOf(at), children)}
		if form == formImplicitConst {
			o.implicit = c.SLEB()
		}
		n, fixed := l.fixed(form)
		if fixed && o.slot == slotNone {
			skip += n
			continue
		}
		if fixed && n <= 8 {
			o.size = uint8(n)
		}
		o.skip, skip = skip, 0
		ops = append(ops, o)
	}
}

// slot returns s if the attribute is needed in a DIE of the kind.
func (k kind) slot(s slot, children bool) slot {
	switch {
	case s == slotSibling:
		if !children || k == kindUnit || k == kindContainer || k == kindInlined {
			return slotNone
		}
	case k == kindUnit:
		if s >= slotStmtList || s == slotLow || s == slotHigh || s == slotRanges || s == slotName {
			return s
		}
		return slotNone
	case k == kindFunction, k == kindInlined:
		if s >= slotStmtList {
			return slotNone
		}
	default:
		return slotNone
	}
	return s
}
