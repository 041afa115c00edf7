package text

import (
	"slices"
	"testing"
)

func TestMiddle(t *testing.T) {
	for _, c := range []struct {
		text, want string
		width      int
	}{
		{"main", "main", 4},
		{"std::vector<int>::push_back", "std::vec…sh_back", 16},
		{"naïve::naïve", "naïve::naïve", 12},
		{"ééééé", "éé…é", 4},
		{"abcdef", "ab", 2},
		{"abcdef", "", -1},
	} {
		t.Run(c.text, func(t *testing.T) {
			if got := Middle(c.text, c.width); got != c.want {
				t.Errorf("%q in %d columns: %q, want %q", c.text, c.width, got, c.want)
			}
		})
	}
}

func TestFunction(t *testing.T) {
	const name = "int Walker<std::string, std::pair<int, std::vector<char>>>::go(std::map<int, int>&, int) const"
	for _, c := range []struct {
		text, want string
		width      int
	}{
		{name, name, 200},
		{name, "int Walker<std::string, std::pair<int, std::vector<…>>>::go(std::map<int, int>&, int) const", 92},
		{name, "int Walker<std::string, std::pair<…>>::go(std::map<…>&, int) const", 70},
		{name, "int Walker<…>::go(…) const", 30},
		{name, "int Wa… const", 13},
		{"operator<< <char, int>(std::ostream&)", "operator<< <…>(…)", 20},
		{"f(a->b, c)::operator->() const", "f(…)::operator->() const", 26},
		{"f<main::{lambda()#1}::operator()(int) const>(long, int)::g", "f<…>(…)::g", 20},
		{"a_long_name_of_c", "a_lo…of_c", 9},
	} {
		t.Run(c.want, func(t *testing.T) {
			if got := Function(c.text, c.width); got != c.want {
				t.Errorf("%q in %d columns: %q, want %q", c.text, c.width, got, c.want)
			}
		})
	}
}

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		percent float64
		want    string
	}{{5, "a" + Red + "x" + Reset}, {-7, "a" + Red + "x" + Reset}, {4.99, "a" + Green + "x" + Reset}, {0.5, "ax"}} {
		l := Style{Color: true}
		got := l.Percent([]byte("ax"), 1, c.percent)
		if string(got) != c.want || l.Columns(got) != 2 {
			t.Errorf("%g %%: %q with %d columns, want %q with 2", c.percent, got, l.Columns(got), c.want)
		}
		if got := (Style{}).Percent([]byte("ax"), 1, c.percent); string(got) != "ax" {
			t.Errorf("%g %% without colours: %q", c.percent, got)
		}
	}
}

func TestCrop(t *testing.T) {
	l := Style{Width: 30}
	line := "first line\n        |--"
	got := string(l.Crop([]byte(line+"a::function::of::a::long::name"), len(line)))
	if want := line + Middle("a::function::of::a::long::name", 19); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := string(Style{}.Crop([]byte(line+"name"), len(line))); got != line+"name" {
		t.Errorf("without a window: %q", got)
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		name                   string
		widths, minimums, want []int
		room                   int
	}{
		{"wide enough", []int{8, 20}, []int{-1, 5}, []int{8, 20}, 28},
		{"the widest", []int{8, 100, 20}, []int{-1, 5, 5}, []int{8, 52, 20}, 80},
		{"both", []int{8, 100, 90}, []int{-1, 5, 5}, []int{8, 16, 16}, 40},
		{"too narrow", []int{8, 100}, []int{-1, 10}, []int{8, 10}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			if Fit(c.widths, c.minimums, c.room); !slices.Equal(c.widths, c.want) {
				t.Errorf("%v, want %v", c.widths, c.want)
			}
		})
	}
}
