# Known functions: the comment of each line names its function and, after >, those that it calls.
#
# A sample is right if the innermost function is at a line of its own, and each caller at a line that calls the next one.

use strict;
use utf8;
use warnings;
use List::Util qw(first);
use Time::HiRes qw(time);

sub spin { # main::spin
    my ($n) = @_; # main::spin
    my $t = 0; # main::spin
    for my $i (1 .. $n) { # main::spin
        $t += $i * $i; # main::spin
    } # main::spin
    return $t; # main::spin
} # main::spin

sub inner { # main::inner
    my ($n) = @_; # main::inner
    return spin($n); # main::inner > main::spin
} # main::inner

sub deep { # main::deep
    my ($d, $n) = @_; # main::deep
    return inner($n) if $d == 0; # main::deep > main::inner
    return deep($d - 1, $n); # main::deep > main::deep
} # main::deep

package Größe { # (main)
    use overload '<=>' => \&compare; # (main)

    sub new { # Größe::new
        my ($class, $n) = @_; # Größe::new
        return bless { n => $n }, $class; # Größe::new
    } # Größe::new

    sub berechne_größe_数 { # Größe::berechne_größe_数
        my ($self, $n) = @_; # Größe::berechne_größe_数
        return main::spin($n); # Größe::berechne_größe_数 > main::spin
    } # Größe::berechne_größe_数

    sub compare { # Größe::compare
        my ($x, $y) = @_; # Größe::compare
        main::spin(10); # Größe::compare > main::spin
        return $x->{n} - $y->{n}; # Größe::compare
    } # Größe::compare
} # (main)

sub by_number { # main::by_number
    spin(5); # main::by_number > main::spin
    return $a <=> $b; # main::by_number
} # main::by_number

sub sorted { # main::sorted
    my ($n) = @_; # main::sorted
    my @a = sort by_number reverse 1 .. $n; # main::sorted > main::by_number
    my @b = sort { # main::sorted > main::spin
        spin(5); # main::sorted > main::spin
        $a <=> $b # main::sorted > main::spin
    } reverse 1 .. $n; # main::sorted > main::spin
    my @c = sort { $a <=> $b } map { Größe->new($_) } reverse 1 .. $n; # main::sorted > Größe::new Größe::compare
} # main::sorted

sub through_c { # main::through_c
    my ($n) = @_; # main::through_c
    return first { # main::through_c > main::__ANON__
        spin(20) < 0; # main::__ANON__ > main::spin
    } 1 .. $n; # main::through_c > main::__ANON__
} # main::through_c

my $closure = sub { # (main)
    my ($n) = @_; # main::__ANON__
    return spin($n); # main::__ANON__ > main::spin
}; # (main)

sub caught { # main::caught
    my ($n) = @_; # main::caught
    eval { # main::caught
        spin($n); # main::caught > main::spin
        die "no"; # main::caught
    }; # main::caught
    return $@; # main::caught
} # main::caught

my $long = "long_" . "x" x 240; # (main)
eval "sub $long {\n    return spin(\$_[0]);\n}\n"; # (main)

my $number = 0; # (main)

sub generated { # main::generated
    my ($n) = @_; # main::generated
    my $name = "made_" . $number++ % 100; # main::generated
    no strict 'refs'; # main::generated
    no warnings; # main::generated
    eval "# line 1 \"$name.pl\"\nsub $name {\n    return spin(\$_[0]);\n}\n$name(\$n);\n"; # main::generated > (eval) made
    return $name->($n); # main::generated > made
} # main::generated

my $stop = (times)[0] + $ARGV[0]; # (main)
while ((times)[0] < $stop) { # (main)
    deep(20, 1000); # (main) > main::deep
    Größe->new(1)->berechne_größe_数(500); # (main) > Größe::new Größe::berechne_größe_数
    sorted(20); # (main) > main::sorted
    through_c(20); # (main) > main::through_c
    $closure->(500); # (main) > main::__ANON__
    caught(500); # (main) > main::caught
    main->can($long)->(500); # (main) > long
    generated(500); # (main) > main::generated
} # (main)
