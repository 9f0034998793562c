-- Bans a lease for so many ms, and never for less than it is banned: put into scripts where they say
-- so.
for _, over in ipairs(call('ZRANGE', bans, '-inf', string.format('(%.0f', now), 'BYSCORE')) do
  call('ZREM', bans, over)
end
call('ZADD', bans, 'GT', string.format('%.0f', now + ban * 1000), banned)
if call('PTTL', bans) < tonumber(ban) then call('PEXPIRE', bans, ban) end
