# Functions that are made, run and freed: keep_N runs one at line N % 2 + 1 of made_N.pl. Each takes the place of the one before.

use strict;
use warnings;

sub spin {
    my ($n) = @_;
    my $t = 0;
    for my $i (1 .. $n) { $t += $i * $i }
    return $t;
}

for my $i (0 .. 19) {
    my $line = $i % 2 + 1;
    my $source = "# line $line \"made_$i.pl\"\nsub { return spin(\$_[0]) + 1; }";
    eval "sub keep_$i { my \$made = eval q{$source\n}; return \$made->(\$_[0]) + 1; }";
}

my $stop = (times)[0] + $ARGV[0];
for (my $i = 0; (times)[0] < $stop; $i++) {
    main->can("keep_" . $i % 20)->(200000);
}
