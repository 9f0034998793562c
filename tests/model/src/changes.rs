//! Changes of the scripts that the comparison must find: one at each decision.

use crate::game::Change;

const fn change(script: &'static str, old: &'static str, new: &'static str) -> Change {
    Change { script, old, new }
}

pub const ALL: [Change; 26] = [
    change("acquire", "now > tonumber(A[4])", "now >= tonumber(A[4])"),
    change("acquire", "m[1] ~= A[3]", "m[1] and m[1] ~= A[3]"),
    change(
        "acquire",
        "if m[2] and not call('GET', K[1]) then",
        "if m[2] then",
    ),
    change(
        "acquire",
        "if m[2] and",
        "if m[2] and call('PTTL', K[4]) > 0 and",
    ),
    change("acquire", "'NX', 'PX', A[2])", "'NX', 'PX', A[2] + 1)"),
    change("acquire", "'NX', 'PX'", "'PX'"),
    change("acquire", "next < now - 1000000", "next <= now - 1000000"),
    change("acquire", "next > now + 10000000", "next > now + 10000001"),
    change("acquire", "next <= last", "next < last"),
    change("acquire", "'%.0f'", "'%.14g'"),
    change("acquire", "left < tonumber(A[2])", "left > tonumber(A[2])"),
    change("acquire", "^%x+%.", "^.-%."),
    change("acquire", "or call('GET', K[2]) or ''", "or A[5]"),
    change("extend", "> tonumber(A[5])", ">= tonumber(A[5])"),
    change("extend", "A[4] ~= '' and call", "A[4] == '' and call"),
    change("extend", "A[3] == '0' or A[3] == '3'", "A[3] == '0'"),
    change("extend", "left ~= -2", "left > 0"),
    change("extend", "A[3] == '1' and A[4]", "A[4]"),
    change(
        "extend",
        "tonumber(last) > tonumber(fence)",
        "tonumber(last) >= tonumber(fence)",
    ),
    change("extend", "    fence = last", ""),
    change(
        "extend",
        "if call('PTTL', K[1]) < tonumber(A[2])",
        "if true",
    ),
    change("extend", "fence, 'PX', A[7])", "fence)"),
    change("extend", "mine and 1 or 2", "1"),
    change("release", "== ARGV[1]", "~= ''"),
    change("init", "stored ~= A[1]", "stored ~= '' and stored ~= A[1]"),
    change("init", "math.max(0, call('PTTL', K[2]))", "0"),
];
