"""The steps of the model, by the names of actions.toml, with their parameters."""

import client
import environment
import node

ACTIONS = {
    "Tick": (environment.tick, ""),
    "Step": (environment.step, "NR"),
    "Forget": (environment.forget, "NBBR"),
    "CounterLost": (environment.counter_lost, "NII"),
    "ClientSee": (client.see, "M"),
    "ClientAsk": (client.ask, "M"),
    "ClientShare": (client.share, "M"),
    "ClientRenew": (client.renew, "M"),
    "ClientWriteBack": (client.write_back, "M"),
    "ClientAdopt": (client.adopt, "M"),
    "ClientWin": (client.win, "T"),
    "ClientPassOn": (client.pass_on, "T"),
    "ClientGiveUp": (client.give_up, "T"),
    "ClientRelease": (client.release, "M"),
    "ClientExport": (client.export, "T"),
    "ClientDowngrade": (client.downgrade, "T"),
    "NodeNativeAcquire": (node.native_acquire, "M"),
    "NodeTrailer": (node.trailer, "M"),
    "NodeAcquire": (node.acquire, "M"),
    "NodeExtend": (node.extend, "M"),
    "NodeConfirm": (node.confirm, "M"),
    "NodeShare": (node.share, "M"),
    "NodeShareExtend": (node.share_extend, "M"),
    "NodeAdopt": (node.adopt, "M"),
    "NodeRelease": (node.release, "M"),
    "NodeKeep": (node.keep, "M"),
    "NodeJoin": (node.join, "NTR"),
    "NodeServe": (node.serve, "N"),
    "NodeInit": (node.init, "NIR"),
    "ClientRaise": (node.found, "N"),
}
