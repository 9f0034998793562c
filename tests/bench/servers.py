"""What a run costs the servers: CPU time from /proc, commands and reads from INFO."""

from stage import RespError


class Servers:
    """The nodes of a stage that answer when this is made; those that later do not count for nothing."""

    def __init__(self, stage):
        self._stage = stage
        self._numbers = stage.running()
        self.processes = [int(self._info(number, "server")["process_id"]) for number in self._numbers]

    def _info(self, number, section):
        lines = self._stage.redis(number, "INFO", section).decode().split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def cpu_ns(self):
        """CPU time of the main threads: Redis does all of this work there."""
        total = 0
        for process in self.processes:
            try:
                with open(f"/proc/{process}/schedstat") as file:
                    total += int(file.read().split()[0])
            except OSError:
                pass
        return total

    def begin(self):
        self._stage.reset_counters()
        self._cpu = self.cpu_ns()

    def end(self):
        """CPU and executed commands since `begin`, of the nodes that still answer."""
        cpu = self.cpu_ns() - self._cpu
        executed = reads = scripts = 0
        for number in self._stage.running():
            try:
                counters = self._stage.counters(number)
                # This counts itself, but not before it is over.
                executed += sum(count for name, count in counters.items() if name not in ("config|resetstat", "info"))
                scripts += counters.get("evalsha", 0) + counters.get("eval", 0)
                reads += int(self._info(number, "stats")["total_reads_processed"])
            except (OSError, RespError):
                pass
        return {"server_cpu_ns": cpu, "executed": executed, "scripts": scripts, "server_reads": reads}

    def keys(self):
        """How many keys there are on the nodes that answer, but for Quorlock's records and counters."""
        return sum(1 for number in self._stage.running() for key in self._stage.keys(number)
                   if not key.startswith(b"lock:#"))
