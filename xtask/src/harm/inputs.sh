# Makes inputs for commands of packages, the same on every machine. Each function writes to standard output.

# words LINES: lines of nine made-up words, of 900 different ones.
words() {
    awk -v lines="$1" 'BEGIN {
        split("ba ne ri to lu ka mi so de fa gor ten sil var", part, " ")
        for (s = 7; w < 900; w++) {
            s = s * 16807 % 2147483647
            for (k = s % 3; k >= 0; k--) { s = s * 16807 % 2147483647; word[w] = word[w] part[s % 14 + 1] }
        }
        while (lines-- > 0) {
            line = word[int(s / 1000) % 900]
            for (j = 0; j < 8; j++) { s = s * 16807 % 2147483647; line = line " " word[int(s / 1000) % 900] }
            print line
        }
    }'
}

# sequences LETTERS COUNT LENGTH: related sequences in FASTA, each letter changed in one of eight places.
sequences() {
    awk -v letters="$1" -v count="$2" -v length_="$3" 'BEGIN {
        n = length(letters)
        for (s = 11; i < length_; i++) { s = s * 16807 % 2147483647; base[i] = substr(letters, int(s / 1000) % n + 1, 1) }
        for (j = 0; j < count; j++) {
            printf ">seq%d\n", j
            for (i = 0; i < length_; i++) {
                s = s * 16807 % 2147483647
                printf "%s%s", int(s / 1000) % 8 ? base[i] : substr(letters, int(s / 9000) % n + 1, 1), i % 60 == 59 ? "\n" : ""
            }
            if (length_ % 60) printf "\n"
        }
    }'
}
dna() { sequences ACGT "$1" "$2"; }
protein() { sequences ACDEFGHIKLMNPQRSTVWY "$1" "$2"; }

# c_source FUNCTIONS: C without headers.
c_source() {
    awk -v count="$1" 'BEGIN { for (; f < count; f++) printf "\
struct s%d { long key; struct s%d *next; double w[%d]; };\n\
long walk%d(struct s%d *p, long n)\n{\n    long sum = %d, i;\n    int j;\n    for (i = 0; i < n && p; i++, p = p->next) {\n\
        for (j = 0; j < %d; j++) p->w[j] = p->w[j] * %d + (double)i;\n\
        switch (p->key & 7) { case 1: sum += p->key; break; case 5: sum ^= i; break; default: sum -= (long)p->w[0]; }\n\
    }\n    return sum;\n}\n", f, f, f % 9 + 1, f, f, f, f % 9 + 1, f }'
}

# picture WIDTH HEIGHT: a PPM of smooth waves with noise.
picture() {
    perl -e 'my ($w, $h) = @ARGV; print "P6\n$w $h\n255\n"; my $s = 7; binmode STDOUT;
        for my $y (0 .. $h - 1) { print pack "C*", map { $s = $s * 16807 % 2147483647; my $n = $s % 23;
            (128 + 100 * sin(($_ + $y) / 37) + $n, 128 + 90 * sin($_ / 19 - $y / 11) + $n, (($_ ^ $y) & 127) + $n) } 0 .. $w - 1 }' "$1" "$2"
}

# sound SECONDS: a WAV file, 44.1 kHz, two channels, 16 bits.
sound() {
    perl -e 'my $n = $ARGV[0] * 44100; binmode STDOUT; my $s = 7;
        print "RIFF", pack("V", 36 + $n * 4), "WAVEfmt ", pack("VvvVVvv", 16, 1, 2, 44100, 176400, 4, 16), "data", pack("V", $n * 4);
        for my $i (0 .. $n - 1) { $s = $s * 16807 % 2147483647; my $e = 9000 * (1 + sin($i / 30000));
            print pack "s<2", $e * sin($i / 16) + $s % 500, $e * sin($i / 23) - $s % 400 }' "$1"
}
