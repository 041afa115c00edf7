package demangle

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestName expects the names that perf 7.3 shows: rows that are not obvious come from its output.
func TestName(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"main", "main"},
		{"main.(*T).Method", "main.(*T).Method"},
		{"runtime.mallocgc", "runtime.mallocgc"},

		// C++
		{"_ZN3foo3barEv", "foo::bar()"},
		{"_ZN3foo3barE", "foo::bar"},
		{"_ZN4list4headE", "list::head"},
		{"_ZN4list1hE", "list::h"},
		{"_ZN4list17h05af221e174051e9E", "list"},
		{"_ZNKSs4sizeEv", "std::string::size() const"},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back(int const&)"},
		{"_ZN3FooC2Ei", "Foo::Foo(int)"},
		{"_ZN3FooD0Ev", "Foo::~Foo()"},
		{"_ZTV3Foo", "vtable for Foo"},
		{"_ZThn16_N3Foo3barEv", "non-virtual thunk to Foo::bar()"},
		{"_Z3fooi.part.0", "foo(int) [clone .part.0]"},
		{"_Z3fooi.constprop.0.cold", "foo(int) [clone .constprop.0] [clone .cold]"},
		{"_GLOBAL__sub_I_main", "_GLOBAL__sub_I_main"},
		{"_GLOBAL__I_main", "global constructors keyed to main"},
		{"_GLOBAL__D__Z3foov", "global destructors keyed to foo()"},
		{"_ZNSt3mapIiiE@@VERS_1", "_ZNSt3mapIiiE@@VERS_1"},
		{"_Znonsense", "_Znonsense"},
		{"_ZTV9PassModelI6Module15AnalysisManagerIS0_JEEJEE", "vtable for PassModel<Module, AnalysisManager<Module>>"},
		{"_ZTV9PassModelI6Module15AnalysisManagerIS0_JEEE", "vtable for PassModel<Module, AnalysisManager<Module> >"},
		{"_Z3fooIXadL_Z3barvEEEvv", "void foo<&(bar())>()"},
		{"_Z3fooIXadL_ZN1C3barEvEEEvv", "void foo<&C::bar>()"},
		{"_Z1fI1AENSt9enable_ifIXntsr3stdE9is_same_vIT_iEEvE4typeEv", "std::enable_if<!(std::is_same_v<A, int>), void>::type f<A>()"},

		// C++: later parts refer to the prefix before a template in a dependent scope.
		{"_ZN4llvm10checkedAddIiEENSt9enable_ifIXsr3std9is_signedIT_EE5valueENS_8OptionalIS2_EEE4typeES2_S2_", "std::enable_if<std::is_signed<int>::value, llvm::Optional<int> >::type llvm::checkedAdd<int>(int, int)"},
		{"_ZSt4swapI1AENSt9enable_ifIXsr6__and_ISt6__not_ISt15__is_tuple_likeIT_EESt21is_move_constructibleIS4_ESt18is_move_assignableIS4_EEE5valueEvE4typeERS4_SD_", "std::enable_if<__and_<std::__not_<std::__is_tuple_like<A> >, std::is_move_constructible<A>, std::is_move_assignable<A> >::value, void>::type std::swap<A>(A&, A&)"},

		// C++: differences from GNU's demangler.
		{"_ZZ4mainENUlvE_D1Ev", "main::{lambda()#1}::~{lambda()#1}()"},
		{"_ZZ4mainENUlvE_C1EOS_", "main::{lambda()#1}::{lambda()#1}({lambda()#1}&&)"},
		{"_ZN5clang6interp15ByteCodeEmitter6emitOpIJEEEbNS0_6OpcodeEDpRKT_RKNS0_10SourceInfoE", "bool clang::interp::ByteCodeEmitter::emitOp<>(clang::interp::Opcode, clang::interp::SourceInfo const&)"},
		{"_ZN4llvm17make_filter_rangeIRNS_10BasicBlockESt8functionIFbRNS_11InstructionEEEEENS_14iterator_rangeINS_20filter_iterator_implIDTclsr3stdE5beginclsr3stdE7declvalIRT_EEEET0_NS_6detail15fwd_or_bidi_tagISC_E4typeEEEEEOSA_SD_",
			"llvm::iterator_range<llvm::filter_iterator_impl<decltype (std::begin(std::declval<llvm::BasicBlock&>())), std::function<bool (llvm::Instruction&)>, llvm::detail::fwd_or_bidi_tag<decltype (std::begin(std::declval<llvm::BasicBlock&>()))>::type> > " +
				"llvm::make_filter_range<llvm::BasicBlock&, std::function<bool (llvm::Instruction&)> >(llvm::BasicBlock&, std::function<bool (llvm::Instruction&)>)"},
		// C functions whose names are also mangled types.
		{"f", "f"},
		{"w", "w"},
		{"Pc", "Pc"},
		{"Si", "Si"},
		{"fd", "fd"},
		{"read", "read"},
		{"foo.cold", "foo.cold"},

		// Rust, the legacy scheme: hashes are dropped, escapes decoded.
		{"_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE", "core::fmt::Formatter::write_str"},
		{"_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE", "<Test + 'static as foo::Bar<Test>>::bar"},
		{"_ZN12test$BP$test4foobE", "test*test::foob"},
		{"_ZN3foo17h05af221e174051e9E.llvm.9D1C9369", "foo"},
		{"_ZN3foo17h05af221e174051e9E.cold", "foo.cold"},
		{"_ZN3foo$u7f$bar17h05af221e174051e9E", "_ZN3foo$u7f$bar17h05af221e174051e9E"},

		// Rust, the v0 scheme (examples of RFC 2603, and names that rustc emits).
		{"_RNvCs1234_7mycrate3foo", "mycrate::foo"},
		{"_RNvNtNtCs1234_7mycrate3foo3bar3baz", "mycrate::foo::bar::baz"},
		{"_RNCNvCsgStHSCytQ6I_7mycrate4main0B3_", "mycrate::main::{closure#0}"},
		{"_RNvMs_Cs4Cv8Wi1oAIB_7mycrateNtB4_7Example3foo", "<mycrate::Example>::foo"},
		{"_RNvXCs4fqI2P2rA04_7mycrateNtB2_7ExampleNtB2_5Trait3foo", "<mycrate::Example as mycrate::Trait>::foo"},
		{"_RNvYNtCs4fqI2P2rA04_7mycrate7ExampleNtB4_5Trait3foo", "<mycrate::Example as mycrate::Trait>::foo"},
		{"_RINvCs7QNVKdBsmJ_7mycrate7examplelKj1_EB2_", "mycrate::example::<i32, 1>"},
		{"_RINvCsa_1a1bpE", "a::b::<_>"},
		{"_RINvCsa_1a1bTEE", "a::b::<()>"},
		{"_RINvCsa_1a1bThEE", "a::b::<(u8,)>"},
		{"_RINvCsa_1a1bFUKCEuE", `a::b::<unsafe extern "C" fn()>`},
		{"_RINvCsa_1a1bFG_RL0_hEhE", "a::b::<for<'a> fn(&'a u8) -> u8>"},
		{"_RINvCsa_1a1bDNtB2_1Tp4ItemhEL_E", "a::b::<dyn a::T<Item = u8>>"},
		{"_RINvCsa_1a1bKb1_Kc41_Kln5_KRe616263_E", `a::b::<true, 'A', -5, "abc">`},
		{"_RINvCsa_1a1bKVNtB2_1SS1xh1_1yh2_EE", "a::b::<{a::S { x: 1, y: 2 }}>"},
		{"_RNvCsa_1au8gdel_5qa", "a::gödel"},
		{"_RNvCs1234_7mycrate3foo.llvm.1234ABCD", "mycrate::foo"},
		{"_RNvCs1234_7mycrate3foo.cold", "mycrate::foo.cold"},
		{"_RNvC", "_RNvC"},
		{"RSA_new", "RSA_new"},

		// OCaml
		{"camlStdlib__List__map_481", "Stdlib.List.map_481"},
		{"camlFoo__$2b$2b_123", "Foo.++_123"},
		{"camlhash_table", "camlhash_table"},

		// Java
		{"Ljava/lang/StringLatin1;equals([B[B)Z", "java.lang.StringLatin1.equals(byte[], byte[])"},
		{"Ljava/lang/Object;<init>()V", "java.lang.Object<init>()"},
		{"LFoo;bar([Ljava/lang/String;I)V", "Foo.bar(java.lang.String, int[])"}, // sic
		{"LFoo;bar(ILjava/lang/String;)V", "Foo.bar(int, java.lang.String)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Name(c.name); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestNameAgainstCxxfilt compares with GNU's demangler: perf uses libstdc++'s copy of it.
func TestNameAgainstCxxfilt(t *testing.T) {
	cxxfilt, err := exec.LookPath("c++filt")
	if err != nil {
		t.Skip("c++filt is not installed (package binutils)")
	}
	nm, err := exec.LookPath("nm")
	if err != nil {
		t.Skip("nm is not installed (package binutils)")
	}
	var names []string
	for _, lib := range []string{"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		"/usr/lib/aarch64-linux-gnu/libstdc++.so.6"} {
		out, err := exec.Command(nm, "-D", "--without-symbol-versions", lib).Output()
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(out), "\n") {
			if f := strings.Fields(line); len(f) > 0 && strings.HasPrefix(f[len(f)-1], "_Z") {
				names = append(names, f[len(f)-1])
			}
		}
	}
	if len(names) == 0 {
		t.Skip("libstdc++.so.6 is not installed")
	}
	cmd := exec.Command(cxxfilt, "--no-verbose")
	cmd.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(bytes.NewReader(out))
	for _, name := range names {
		if !sc.Scan() {
			t.Fatal("c++filt printed fewer lines than names")
		}
		if got := Name(name); got != sc.Text() {
			t.Errorf("%s\n got  %s\n want %s", name, got, sc.Text())
		}
	}
}

func TestSameConstructor(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"_ZN3FooC1Ei", "_ZN3FooC2Ei", true},
		{"_ZN3FooD0Ev", "_ZN3FooD2Ev", true},
		{"_ZN3FooC1IiEET_", "_ZN3FooC2IiEET_", true},
		{"_ZZ4mainENUlvE_D1Ev", "_ZZ4mainENUlvE_D2Ev", true},
		{"_ZN3FooC1Ei", "_ZN3FooC1Ei", false},
		{"_ZN3FooC1Ei", "_ZN3FooD1Ei", false},
		{"_ZN3FooC1Ei", "_ZN3FooC2Ej", false},
		{"_ZN3FooC1Ei", "_ZN3FooC2Eil", false},
		{"_ZN2C13fooEv", "_ZN2C23fooEv", false},
		{"C1E", "C2E", false},
		{"", "", false},
	} {
		if got := SameConstructor(c.a, c.b); got != c.want {
			t.Errorf("SameConstructor(%q, %q) = %v, want %v", c.a, c.b, got, c.want)
		}
		if a, b := Name(c.a), Name(c.b); c.want && a != b {
			t.Errorf("%q is shown as %q, %q as %q", c.a, a, c.b, b)
		}
	}
}
