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
    // Votes and fences.
    change("acquire", "now > tonumber(A[6])", "now >= tonumber(A[6])"),
    change("acquire", "m[1] ~= A[5]", "m[1] and m[1] ~= A[5]"),
    change(
        "acquire",
        "if not value or value ~= A[1] and string.find(A[3], ' ') then",
        "do",
    ),
    at_the_end(
        "acquire",
        "if m[2] then",
        "if m[2] and call('PTTL', K[6]) > 0 then",
    ),
    change("acquire", "'NX', 'PX', A[2])", "'NX', 'PX', A[2] + 1)"),
    change("acquire", "'NX', 'PX', A[2])", "'PX', A[2])"),
    change("acquire", "A[7] == '0'", "false"),
    change(
        "acquire",
        "return {1, call('GET', K[4]) or ''",
        "return {1, ''",
    ),
    change(
        "acquire",
        "if next > now",
        "if next < now then next = now elseif next > now",
    ),
    change("acquire", "next > now + 10000000", "next > now + 10000001"),
    change("acquire", "+ (A[9] or 1)", "+ 1"),
    change("acquire", "+ (A[9] or 1)", "+ (A[9] or 0)"),
    change("acquire", "'%.0f', next", "'%.14g', next"),
    change("acquire", "left < tonumber(A[2])", "left > tonumber(A[2])"),
    change("acquire", "^%x+%.", "^.-%."),
    change(
        "acquire",
        "A[7] == '' and '' or call('GET', K[4]) or ''",
        "A[7]",
    ),
    change("extend", "> tonumber(A[5])", ">= tonumber(A[5])"),
    change("extend", "A[4] ~= '' and call", "A[4] == '' and call"),
    change("extend", "A[3] == '0' or A[3] == '3'", "A[3] == '0'"),
    at_the_end("extend", "left ~= -2", "left > 0"),
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
    change("release", "m[1] == A[1]", "m[1]"),
    change("release", "A[1] ~= '' and m[1]", "m[1]"),
    change("init", "stored ~= A[1]", "stored ~= '' and stored ~= A[1]"),
    change("init", "math.max(0, call('PTTL', K[2]))", "0"),
    // Whose turn it is.
    change(
        "acquire",
        "if line and not call('GET', K[1]) then",
        "if line then",
    ),
    change(
        "acquire",
        "if till and tonumber(till) > now then",
        "if till and tonumber(till) >= now then",
    ),
    change(
        "acquire",
        "if till and tonumber(till) > now then",
        "if till then",
    ),
    change(
        "acquire",
        "if till and tonumber(till) > now then",
        "if false then",
    ),
    change("acquire", "if whose ~= A[4] then", "do"),
    change("acquire", "if whose ~= A[4] then", "if false then"),
    change("acquire", "reserved = length * 1000", "reserved = nil"),
    change("acquire", "math.ceil(", "math.floor("),
    change("acquire", "not turn(A[4], now", "not turn(nil, now"),
    change("acquire", "if not waiter or waiter == me", "if not waiter"),
    change("release", "if now < -(call", "if now <= -(call"),
    change("acquire", "if now < -(call", "if 0 < -(call"),
    change("acquire", "inbox, number)", "inbox, waiter)"),
    change(
        "acquire",
        "then return true end\n      if listeners",
        "then listeners = 0 end\n      if listeners",
    ),
    change(
        "release",
        "then return true end\n      if listeners",
        "then listeners = 0 end\n      if listeners",
    ),
    change("acquire", "redis.pcall('PUBLISH'", "call('PUBLISH'"),
    change("release", "if listeners > 0", "if listeners >= 0"),
    change("release", "length * 1000", "length * 1001"),
    change("release", "waiter, 'KEEPTTL')", "waiter)"),
    change(
        "release",
        "'!' .. waiter)\n        return false",
        "'!' .. waiter)\n        return true",
    ),
    change(
        "release",
        "call('ZREM', K[2], waiter, '!' .. waiter)\n        return",
        "return",
    ),
    change(
        "release",
        "    call('ZREM', K[2], waiter, '!' .. waiter)\n  end",
        "    call('ZREM', K[2], waiter)\n  end",
    ),
    change(
        "acquire",
        "== 0 then\n    redis.call('DEL'",
        "< 0 then\n    redis.call('DEL'",
    ),
    change(
        "release",
        "== 0 then\n    redis.call('DEL'",
        ">= 0 then\n    redis.call('DEL'",
    ),
    change("release", "'', 'KEEPTTL')", "'')"),
    // Who has voted, and who leaves.
    change(
        "acquire",
        "if A[4] ~= '' then call('ZREM', K[2], A[4], '!' .. A[4]) end",
        "",
    ),
    change("acquire", "    unreserve()\n", ""),
    change("extend", "(call('MGET', K[3])[1] or '') ~= ''", "false"),
    change(
        "extend",
        "(call('MGET', K[3])[1] or '') ~= ''",
        "call('MGET', K[3])[1] == ''",
    ),
    change("release", "if m[2] then", "if held and m[2] then"),
    change(
        "release",
        "if A[2] ~= '' then call('ZREM', K[2], A[2], '!' .. A[2]) end",
        "",
    ),
    change(
        "release",
        "tonumber(till) > now and whose",
        "tonumber(till) >= now and whose",
    ),
    change(
        "release",
        "tonumber(till) > now and whose ~= A[2]",
        "tonumber(till) > now",
    ),
    change("release", "call('PTTL', K[1]) == -2", "true"),
    change("release", "call('PTTL', K[1]) == -2", "held"),
    change("release", "n[1] == A[4] and not n[2]", "n[1] == A[4]"),
    change("release", "n[1] == A[4] and not n[2]", "not n[2]"),
    change("release", "not free or turn", "not free and turn"),
    // Places in the queue.
    change(
        "acquire",
        "value ~= A[1] and string.find(A[3], ' ')",
        "false",
    ),
    change(
        "acquire",
        "queued < tonumber(most)",
        "queued <= tonumber(most)",
    ),
    change("acquire", "if rank or queued <", "if queued <"),
    change("acquire", "- life * 1000", "- life"),
    change("acquire", "place = rank - queued", "place = rank"),
    change("acquire", "place = queued\n", "place = queued + 1\n"),
    change("acquire", "call('ZADD', K[2], ends, '!' .. A[4])", ""),
    change("acquire", "last + 1), A[4]", "last + 2), A[4]"),
    change("acquire", "if not line then call", "if line then call"),
    change("acquire", "if not line then call", "do call"),
    change("acquire", "for i = 2, 3 do", "for i = 2, 2 do"),
    change("acquire", "for i = 2, 3 do", "for i = 3, 3 do"),
    change("acquire", "< tonumber(life)", "> 0"),
    change("acquire", "redis.pcall('PUBSUB'", "call('PUBSUB'"),
    change("acquire", "[2] or 1", "[1] or 1"),
];
