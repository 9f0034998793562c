from quorlock import redlock

with redlock("dist") as lease:
    print("held with fence", lease.fence)
