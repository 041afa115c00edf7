package demangle

import "testing"

// FuzzName: demangling ends for any name, with a bounded result.
func FuzzName(f *testing.F) {
	for _, name := range []string{
		"_ZN3foo3barEv", "_RINvCs7QNVKdBsmJ_7mycrate7examplelKj1_EB2_", "_ZN3foo17h05af221e174051e9E.llvm.9D1C9369",
		"camlStdlib__List__map_481", "Ljava/lang/Object;<init>()V", "_RNvCsa_1au8gdel_5qa", "_ZTV9PassModelI6Module15AnalysisManagerIS0_JEEJEE", "f",
		"_Z1fIiENSt9enable_ifIXsr3std9is_signedIT_EE5valueE8OptionalIS1_EE4typeES1_SA_",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if shown := Name(name); len(shown) > 1<<21 {
			t.Errorf("%d bytes from %d", len(shown), len(name))
		}
	})
}
