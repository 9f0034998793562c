-- KEYS locks; ARGV the value of each. A release of locks without waiters, where the server cannot delete by value by itself.
-- Says of each lock whether it was held. MGET shows no key of another type, which is no lock of ours.
local held, mine = {}, {}
for i, value in ipairs(redis.call('MGET', unpack(KEYS))) do
  held[i] = value == ARGV[i] and 1 or 0
  if held[i] == 1 then mine[#mine + 1] = KEYS[i] end
end
if mine[1] then redis.call('DEL', unpack(mine)) end
return held
