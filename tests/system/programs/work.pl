# SPDX-License-Identifier: LGPL-2.1-or-later
# perl work.pl SECONDS
use strict;
use warnings;

sub leaf {
    my ($rounds) = @_;
    my $sum = 0;
    $sum += $_ * $_ for 1 .. $rounds;
    return $sum;
}

sub middle {
    my ($end) = @_;
    leaf(10000) while (times)[0] < $end;
    return $end;
}

sub outer {
    my ($end) = @_;
    return middle($end) + 1;
}

outer($ARGV[0]);
