//! Changes of the scripts that the comparison must find: one at each decision.

mod alone;
mod shared;

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
/// Those that drawn calls show.
pub fn all() -> impl Iterator<Item = &'static Change> {
    alone::ALONE.iter().chain(shared::SHARED)
}

/// Those that need what no memory node has (values of a later version, and keys of another
/// type), or the very end of a ban or of what is kept. The directed table must find them.
pub const DIRECTED: &[Change] = &[
    // What needs memory is written first, where the server has none left.
    change(
        "extend",
        "if own then call('PEXPIRE'",
        "call('ZADD', bans, '0', '') call('ZREM', bans, '')\nif own then call('PEXPIRE'",
    ),
    change(
        "extend",
        "if own then call('PEXPIRE'",
        "if own and not fenced then call('PEXPIRE'",
    ),
    change("share_extend", "if lives > 0 then", "if false then"),
    change("share", "now - asked < math.max", "now - asked <= math.max"),
    change(
        "share",
        "math.max(3000000, 2400000 + 2000 * reservation)",
        "3000000",
    ),
    // What proves nothing: a text that is none of ours, or in a form.
    change("acquire", "and token or nil", "and token or of"),
    change("extend", "and token or nil", "and token or of"),
    change("share_extend", "and token or nil", "and token or of"),
    change("release", "and token or nil", "and token or of"),
    change("adopt", "and token or nil", "and token or of"),
    change("adopt", "if not banned then", "if false then"),
    change(
        "release",
        "if ban and my_value ~= '' and",
        "if my_value ~= '' and",
    ),
    change("release", "if ban and my_value ~= '' and", "if false and"),
    change(
        "release",
        "free and form ~= '&' and not (held and form == '-')",
        "free and form ~= '&'",
    ),
    change(
        "release",
        "keep and my_value ~= '' and free",
        "keep and my_value ~= '' and held",
    ),
    change(
        "release",
        "keep and my_value ~= '' and free",
        "keep and free",
    ),
    change(
        "release",
        "free and form ~= '&' and not (held",
        "free and not (held",
    ),
    change(
        "release",
        "(form or not value and redis.pcall('ZCARD', queue) ~= 0) and tonumber",
        "form and tonumber",
    ),
    change(
        "release",
        "(form or not value and redis.pcall('ZCARD', queue) ~= 0) and tonumber",
        "(form or not value) and tonumber",
    ),
    change(
        "extend",
        "if banned and now <= tonumber(banned)",
        "if banned",
    ),
    change(
        "extend",
        "now <= tonumber(banned)",
        "now < tonumber(banned)",
    ),
    change("acquire", "([-=@&])", "([=@&])"),
    change("extend", "([-=@&])", "([=@&])"),
    change(
        "acquire",
        "lease(value) == mine or form == '='",
        "lease(value) == mine or form",
    ),
    change(
        "extend",
        "lease(value) == mine or form == '='",
        "lease(value) == mine or form",
    ),
    change("acquire", "call('GET', lock)", "redis.pcall('GET', lock)"),
    change("extend", "    value = ''\n", "    value = nil\n"),
    change("release", "    value = ''\n", "    value = nil\n"),
    change("acquire", "counter_life ~= ''", "true"),
    change("release", "redis.pcall('ZREM'", "call('ZREM'"),
    change(
        "release",
        "local ok, kept = pcall(function()",
        "local unprotected = function(f) return true, f() end local ok, kept = unprotected(function()",
    ),
];

/// Those by which somebody who has not the holder's token changes what the holder has.
pub const STRANGERS: &[Change] = &[
    change("acquire", "and token or nil", "and token or of"),
    change("extend", "and token or nil", "and token or of"),
    change("share_extend", "and token or nil", "and token or of"),
    change("release", "and token or nil", "and token or of"),
    change("adopt", "and token or nil", "and token or of"),
    change("adopt", "theirs ~= banned", "false"),
    change(
        "extend",
        "'=' and stands and lease(occupant) == mine",
        "'=' and stands",
    ),
    change(
        "extend",
        "(not value or form == '@'",
        "(true or form == '@'",
    ),
    change(
        "release",
        "if ban and my_value ~= '' and",
        "if my_value ~= '' and",
    ),
    change(
        "release",
        "if form == '&' and my_value ~= '' and call('ZREM', shared, my_value) == 1 then",
        "if form == '&' then call('DEL', shared)",
    ),
    change("share", "not string.find(occupant, '^s')", "false"),
    change("reserve", "not value or form and", "true or form and"),
    change("hextend", " or call('HGET', tokens, token) ~= '1'", ""),
    change("hrelease", "if counted ~= '1' then", "if false then"),
];

/// Those that only a command which is refused shows.
pub const REFUSED: &[Change] = &[
    // As it was once: the owner's count before all else, and its token as if it were counted.
    change("hacquire", "token, '0')", "token, '1')"),
    change("hrelease", "if counted ~= '1' then", "if not counted then"),
    change(
        "release",
        "not string.find(value.err, 'WRONGTYPE')",
        "false",
    ),
    change("extend", "not string.find(value.err, 'WRONGTYPE')", "false"),
    change(
        "share_extend",
        "not string.find(value.err, 'WRONGTYPE')",
        "false",
    ),
];
