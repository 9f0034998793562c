//! Changes of the scripts that the comparison must find: one at each decision.

use crate::game::Change;

const fn change(script: &'static str, old: &'static str, new: &'static str) -> Change {
    Change {
        script,
        old,
        new,
        at_the_end: false,
    }
}

/// One that shows only in the millisecond of a key's end.
const fn at_the_end(script: &'static str, old: &'static str, new: &'static str) -> Change {
    Change {
        script,
        old,
        new,
        at_the_end: true,
    }
}

pub const ALL: &[Change] = &[
    // Who may be answered, and what is found.
    change("acquire", "now > tonumber(A[6])", "now >= tonumber(A[6])"),
    change("acquire", "m[2] ~= A[5]", "m[2] and m[2] ~= A[5]"),
    change("extend", "now > tonumber(A[5])", "now >= tonumber(A[5])"),
    change("extend", "m[2] ~= A[4]", "m[2] and m[2] ~= A[4]"),
    change("acquire", "([-=@])", "([-=@&])"),
    change("extend", "([-=@])", "([-=@&])"),
    change("release", "([-=@])", "([-=@&])"),
    change("acquire", "now <= tonumber(till)", "now < tonumber(till)"),
    change(
        "acquire",
        "'=' and stands and whose == A[1]",
        "'=' and whose == A[1]",
    ),
    change(
        "acquire",
        "'=' and stands and whose == A[1]",
        "'=' and stands",
    ),
    change("acquire", "value == A[1] or form", "form"),
    change("extend", "now <= tonumber(till)", "now < tonumber(till)"),
    change(
        "extend",
        "'=' and stands and whose == A[1]",
        "'=' and whose == A[1]",
    ),
    change(
        "extend",
        "'=' and stands and whose == A[1]",
        "'=' and stands",
    ),
    change("extend", "value == A[1] or form", "form"),
    change("acquire", "form ~= '@' and stands)", "stands)"),
    change("acquire", "form ~= '@' and stands)", "form ~= '@')"),
    change("acquire", "not form or form ~=", "form and form ~="),
    // Quarantine.
    change("acquire", "(own or not held or", "(not held or"),
    change("acquire", "(own or not held or", "(own or"),
    change("acquire", "held or most ~= '')", "held)"),
    at_the_end(
        "acquire",
        "if quarantine and (",
        "if quarantine and call('PTTL', K[5]) > 0 and (",
    ),
    change("extend", "A[3] == '0' or A[3] == '1'", "A[3] == '1'"),
    change("extend", "A[3] == '0' or A[3] == '1'", "A[3] == '0'"),
    change("extend", "A[3] == '0' or A[3] == '1'", "true"),
    at_the_end(
        "extend",
        "if quarantine and (",
        "if quarantine and call('PTTL', K[4]) > 0 and (",
    ),
    change("release", "m[2] == A[4] and not m[3]", "m[2] == A[4]"),
    change("release", "m[2] == A[4] and not m[3]", "not m[3]"),
    change("release", "call('ZCARD', K[2]) == 0", "true"),
    change("release", "call('ZCARD', K[2]) == 0", "false"),
    change("release", "'@0 ', 'PX', life", "'@0 ', 'PX', reservation"),
    change("init", "stored ~= A[1]", "stored ~= '' and stored ~= A[1]"),
    change("init", "math.max(0, call('PTTL', K[2]))", "0"),
    // Votes.
    change(
        "acquire",
        "local crowded = form == '@' and stands and whose",
        "local crowded = form == '@' and whose",
    ),
    change("acquire", "stands and whose == A[4]", "stands"),
    change(
        "acquire",
        "call('SET', K[1], A[1], 'PX', A[2])",
        "call('SET', K[1], A[1], 'PX', A[2] + 1)",
    ),
    change("acquire", "math.max(A[2], life)", "life"),
    change("acquire", "math.max(A[2], life)", "A[2]"),
    change("acquire", "now + A[2] * 1000", "now + A[2] * 1001"),
    change(
        "acquire",
        "math.max(now + rest * 1000, till)",
        "now + rest * 1000",
    ),
    change("acquire", "A[1], 'KEEPTTL')", "A[1])"),
    change("acquire", "call('PTTL', K[1]) < rest then", "true then"),
    change("acquire", "call('PTTL', K[1]) < rest then", "not form then"),
    change(
        "extend",
        "not gone or A[3] == '0' or A[3] == '3'",
        "not gone or A[3] == '0'",
    ),
    change(
        "extend",
        "not gone or A[3] == '0' or A[3] == '3'",
        "not gone or A[3] == '3'",
    ),
    change("extend", "not gone or A[3]", "A[3]"),
    change("extend", "not value or form == '@' or", "form == '@' or"),
    change(
        "extend",
        "form == '@' or form and not stands",
        "form and not stands",
    ),
    change(
        "extend",
        "form == '@' or form and not stands",
        "form == '@'",
    ),
    change("extend", "if own then full = math.max(full, till) end", ""),
    change("extend", "if own then full", "if true then full"),
    change("extend", "A[1], 'KEEPTTL')", "A[1], 'PX', A[2])"),
    change("extend", "call('PTTL', K[1]) < rest then", "true then"),
    change("extend", "call('PTTL', K[1]) < rest then", "not form then"),
    change("extend", "own and 1 or 2", "1"),
    change("release", "A[1] ~= '' and (value", "(value"),
    change("release", "form == '=' and whose == A[1]", "false"),
    change("release", "value == A[1] or form", "form"),
    change("release", "not value or held or form", "held or form"),
    change("release", "not value or held or form", "not value or form"),
    change("release", "now > tonumber(till)", "now >= tonumber(till)"),
    change("release", "now > tonumber(till)", "true"),
    change("release", "now > tonumber(till) or", ""),
    change("release", "form == '@' and whose == A[2]", "form == '@'"),
    change("release", "form == '@' and whose == A[2]", "false"),
    change("release", "if value and not (ok and kept)", "if false"),
    change("release", "not (ok and kept)", "true"),
    change("lean", "== ARGV[1]", ""),
    // Fences.
    change("acquire", "if fence == '0' then", "if false then"),
    change(
        "acquire",
        "fence and string.format('%.0f', fence) or ''",
        "''",
    ),
    change(
        "acquire",
        "string.format('%.0f', now + 10000000)",
        "string.format('%.0f', now + 10000001)",
    ),
    change(
        "acquire",
        "tonumber(fence) > now + 10000000",
        "tonumber(fence) > now + 10000001",
    ),
    change("acquire", "A[9] and call('ZSCORE', K[3], 'f')", "false"),
    change(
        "acquire",
        "string.format('%.0f', last + A[9])",
        "string.format('%.0f', last + 1)",
    ),
    change("acquire", "'GT', 'CH', fence", "'CH', fence"),
    change("acquire", "K[3], '1', 'f'", "K[3], '2', 'f'"),
    change(
        "acquire",
        "if A[8] ~= '' then call('PEXPIRE', K[3], A[8]) end",
        "",
    ),
    change("extend", "> A[6] - (A[8] or 1)", "> tonumber(A[6])"),
    change("extend", "> A[6] - (A[8] or 1)", ">= A[6] - (A[8] or 1)"),
    change("extend", "(A[8] or 1)", "1"),
    change("extend", "if A[3] == '3' then", "do"),
    change("extend", "'GT', A[6]", "A[6]"),
    change("extend", "  call('PEXPIRE', K[2], A[7])\n", ""),
    // Whose turn it is.
    change("acquire", "turn(A[4])", "turn(nil)"),
    change(
        "acquire",
        "if not first then return 0 end",
        "if not first then return 1 end",
    ),
    change("release", "if now < -(call", "if now <= -(call"),
    change("acquire", "if now < -(call", "if 0 < -(call"),
    change("acquire", "inbox, number)\n", "inbox, first)\n"),
    change("acquire", "then return 3 end", "then listeners = 0 end"),
    change("release", "then return 3 end", "then listeners = 0 end"),
    change("acquire", "redis.pcall('PUBLISH'", "call('PUBLISH'"),
    change("release", "if listeners > 0", "if listeners >= 0"),
    change("release", "reservation * 1000", "reservation * 1001"),
    change("release", "math.max(reservation, life)", "life"),
    change("release", "math.max(reservation, life)", "reservation"),
    change(
        "release",
        "call('ZREM', K[2], first, '!' .. first)\n        return",
        "return",
    ),
    change(
        "release",
        "    call('ZREM', K[2], first, '!' .. first)\n  end",
        "    call('ZREM', K[2], first)\n  end",
    ),
    change("release", "turn(nil) == 2", "turn(nil) ~= 0"),
    change("release", "turn(nil) == 2", "turn(nil) and false"),
    change(
        "acquire",
        "then left = tonumber(reservation) end",
        "then left = 0 end",
    ),
    change(
        "acquire",
        "if not left and whom ~= 0 and",
        "if not left and whom == 1 and",
    ),
    change(
        "acquire",
        "if not left and whom ~= 0 and",
        "if not left and whom == 3 and",
    ),
    change("acquire", "crowded = whom == 1", "crowded = whom ~= 0"),
    change("acquire", "crowded = whom == 1", "crowded = false"),
    change(
        "release",
        "if A[2] ~= '' then redis.pcall('ZREM', K[2], A[2], '!' .. A[2]) end",
        "",
    ),
    // Refusals, and places in the queue.
    change("acquire", "form and math.ceil(", "form and math.floor("),
    change(
        "acquire",
        "    left = math.ceil((till - now) / 1000)\n",
        "    left = math.floor((till - now) / 1000)\n",
    ),
    change("acquire", "and #token == 40", ""),
    change("acquire", "^([0-9a-f]+)%.", "^(%x+)%."),
    change(
        "acquire",
        "queued < tonumber(most)",
        "queued <= tonumber(most)",
    ),
    change("acquire", "if rank or queued and", "if queued and"),
    change("acquire", "- life * 1000", "- life"),
    change("acquire", "place = rank - queued", "place = rank"),
    change("acquire", "place = queued\n", "place = queued + 1\n"),
    change("acquire", "call('ZADD', K[2], ends, '!' .. A[4])", ""),
    change("acquire", "last + 1), A[4]", "last + 2), A[4]"),
    change(
        "acquire",
        "queued == 0 or call('PTTL', K[2]) < tonumber(life)",
        "queued == 0",
    ),
    change(
        "acquire",
        "queued == 0 or call('PTTL', K[2]) < tonumber(life)",
        "true",
    ),
    change(
        "acquire",
        "if call('PTTL', K[1]) < tonumber(life)",
        "if false",
    ),
    change(
        "acquire",
        "if call('PTTL', K[1]) < tonumber(life)",
        "if true",
    ),
    change(
        "acquire",
        "elseif ours and left >= 0",
        "elseif held and left >= 0",
    ),
    change("acquire", "elseif ours and left >= 0", "elseif ours"),
    change("acquire", "elseif ours and left >= 0", "elseif false"),
    at_the_end("acquire", "left >= 0", "left > 0"),
    change("acquire", "left * 1000 + 1000", "left * 1000"),
    change("acquire", "math.max(left, life)", "life"),
    change("acquire", "math.max(left, life)", "left"),
    change("acquire", "redis.pcall('PUBSUB'", "call('PUBSUB'"),
    change("acquire", "[2] or 1", "[1] or 1"),
];

/// Those that need what no memory node has: values of a later version, and keys of another
/// type. The directed table must find them.
pub const DIRECTED: &[Change] = &[
    change("acquire", "([-=@])", "([=@])"),
    change("extend", "([-=@])", "([=@])"),
    change(
        "acquire",
        "value == A[1] or form == '='",
        "value == A[1] or form",
    ),
    change(
        "extend",
        "value == A[1] or form == '='",
        "value == A[1] or form",
    ),
    change("release", "form == '=' and whose == A[1]", "whose == A[1]"),
    change("acquire", "call('GET', K[1])", "redis.pcall('GET', K[1])"),
    change("extend", "then value = '' end", "then value = nil end"),
    change("release", "then value = '' end", "then value = nil end"),
    change("acquire", "A[8] ~= ''", "true"),
    change("release", "redis.pcall('ZREM'", "call('ZREM'"),
    change(
        "release",
        "local ok, kept = pcall(function()",
        "local unprotected = function(f) return true, f() end local ok, kept = unprotected(function()",
    ),
];
