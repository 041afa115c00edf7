package symbolize

import (
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func sized(name string, start, size uint64) entry {
	return entry{start: start, end: start + size, name: name, typ: elf.STT_FUNC, bind: elf.STB_GLOBAL}
}

func asIs(e *entry) string { return e.name }

// TestBetter checks the rules, in perf's order, that select one of two symbols at the
// same address.
func TestBetter(t *testing.T) {
	with := func(e entry, change func(*entry)) entry { change(&e); return e }
	local := func(e *entry) { e.bind = elf.STB_LOCAL }
	weak := func(e *entry) { e.bind = elf.STB_WEAK }
	label := func(e *entry) { e.typ = elf.STT_NOTYPE }
	for _, c := range []struct {
		rule          string
		winner, loser entry
	}{
		{"a size", with(sized("__w", 0, 4), local), sized("long_name", 0, 0)},
		{"a type", with(sized("w", 0, 4), weak), with(sized("long_name", 0, 4), label)},
		{"not weak", with(sized("__w", 0, 4), local), with(sized("long_name", 0, 4), weak)},
		{"global", sized("__w", 0, 4), with(sized("long_name", 0, 4), local)},
		{"fewer underscores", sized("w", 0, 4), sized("_long_name", 0, 4)},
		{"fewer underscores, both have some", sized("_w", 0, 4), sized("__long_name", 0, 4)},
		{"longer name", sized("read_all", 0, 4), sized("read", 0, 4)},
		{"not SyS_", sized("sys_read", 0, 4), sized("SyS_read", 0, 4)},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if !better(&c.winner, &c.loser, asIs) {
				t.Errorf("%s first loses to %s", c.winner.name, c.loser.name)
			}
			if c.rule != "not SyS_" && better(&c.loser, &c.winner, asIs) {
				t.Errorf("%s second loses to %s", c.winner.name, c.loser.name)
			}
		})
	}
	a, b := sized("read", 0, 4), sized("pipe", 0, 4)
	if !better(&a, &b, asIs) || !better(&b, &a, asIs) {
		t.Error("equals: the first one does not win")
	}
}

// TestBetterDemangled checks that names are compared as they are shown: _ZN1a1bEv has an
// underscore, a::b() has none.
func TestBetterDemangled(t *testing.T) {
	s := New(Options{Demangle: true})
	cxx, c := sized("_ZN5alpha4betaEv", 0, 4), sized("alpha_beta", 0, 4)
	if !better(&cxx, &c, s.displayName) {
		t.Error("alpha_beta is preferred to alpha::beta(), the longer one")
	}
	if better(&cxx, &c, asIs) {
		t.Error("without demangling, _ZN5alpha4betaEv is preferred to alpha_beta")
	}
}

func TestFixupEnds(t *testing.T) {
	list := []entry{sized("a", 0x100, 0), sized("b", 0x180, 0x10), sized("c", 0x1a0, 0), sized("d", 0x1a0, 0),
		sized("e", 0x2345, 0)}
	fixupEnds(list, func(_, next *entry) uint64 { return next.start })
	want := []uint64{0x180, 0x190, 0x1a0, 0x2345, 0x4000}
	for i, e := range list {
		if e.end != want[i] {
			t.Errorf("%s: end %#x, want %#x", e.name, e.end, want[i])
		}
	}
}

func TestLookup(t *testing.T) {
	b := tableBuilder{show: asIs}
	b.add([]entry{sized("b", 0x200, 0x10), sized("a", 0x100, 0x80), sized("alias_of_b", 0x200, 0x10),
		sized("end", 0x300, 0)})
	b.resolve()
	table := b.table()
	if table.Len() != 3 {
		t.Errorf("%d symbols, want 3: an alias counts once", table.Len())
	}
	for _, c := range []struct {
		addr uint64
		want string
	}{
		{0xff, ""}, {0x100, "a"}, {0x17f, "a"}, {0x180, ""}, {0x1ff, ""},
		{0x200, "alias_of_b"}, {0x20f, "alias_of_b"}, {0x210, ""},
		{0x300, "end"}, {0x1fff, "end"}, {0x2000, ""}, {^uint64(0), ""},
	} {
		t.Run(fmt.Sprintf("%#x", c.addr), func(t *testing.T) {
			sym, ok := table.Lookup(c.addr)
			if ok != (c.want != "") || ok && sym.Name != c.want {
				t.Errorf("at %#x: %+v, want %q", c.addr, sym, c.want)
			}
		})
	}
	one, _ := table.Lookup(0x101)
	two, _ := table.Lookup(0x102)
	if one != two {
		t.Error("one symbol is two pointers")
	}
}

// TestRBTree checks after random insertions and deletions that the tree is a red-black
// tree in the order of addresses.
func TestRBTree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var tree RBTree
		var alive []int32
		var starts []uint64
		for range 1 + rng.IntN(300) {
			if len(alive) > 0 && rng.IntN(3) == 0 {
				i := rng.IntN(len(alive))
				tree.erase(alive[i])
				alive = slices.Delete(alive, i, i+1)
			} else {
				start := uint64(rng.IntN(50))
				tree.Insert(func(n int32) bool { return start < starts[n-1] })
				starts = append(starts, start)
				alive = append(alive, int32(len(starts)))
			}
			if tree.nodes[tree.root].red {
				t.Fatal("the root is red")
			}
			var inOrder []int32
			checkSubtree(t, &tree, tree.root, &inOrder)
			want := slices.Clone(alive)
			slices.SortStableFunc(want, func(a, b int32) int {
				return int(starts[a-1]) - int(starts[b-1])
			})
			if !slices.Equal(inOrder, want) {
				t.Fatalf("in order: %v, want %v", inOrder, want)
			}
		}
	}
}

// checkSubtree checks the tree below x and returns its black height.
func checkSubtree(t *testing.T, tree *RBTree, x int32, inOrder *[]int32) int {
	if x == 0 {
		return 1
	}
	n := tree.nodes[x]
	for _, child := range n.child {
		if n.red && tree.nodes[child].red {
			t.Fatal("a red node has a red child")
		}
		if child != 0 && tree.nodes[child].parent != x {
			t.Fatal("a child has another parent")
		}
	}
	left := checkSubtree(t, tree, n.child[0], inOrder)
	*inOrder = append(*inOrder, x)
	right := checkSubtree(t, tree, n.child[1], inOrder)
	if left != right {
		t.Fatal("paths with different numbers of black nodes")
	}
	if n.red {
		return left
	}
	return left + 1
}

// TestLookupOverlapping checks that the symbol nearer to the root is found. Inserted in order,
// 1 … 7 make a tree with 2 at its root, 4 and 6 on the right.
func TestLookupOverlapping(t *testing.T) {
	var list []entry
	for i := uint64(1); i <= 7; i++ {
		list = append(list, sized(string(rune('0'+i)), i*0x10, 0x18))
	}
	b := tableBuilder{show: asIs}
	b.add(list)
	b.resolve()
	table := b.table()
	for _, c := range []struct {
		addr uint64
		want string
	}{
		{0x1f, "1"}, {0x20, "2"}, {0x24, "2"}, // 2 is the root, before 1
		{0x34, "2"}, {0x38, "3"}, // the root again, before 3
		{0x44, "4"}, {0x54, "4"}, {0x5c, "5"}, // 4 on the way to 5
		{0x64, "6"}, {0x74, "6"}, {0x7c, "7"},
	} {
		t.Run(fmt.Sprintf("%#x", c.addr), func(t *testing.T) {
			if sym, ok := table.Lookup(c.addr); !ok || sym.Name != c.want {
				t.Errorf("at %#x: %+v, want %s", c.addr, sym, c.want)
			}
		})
	}
}
