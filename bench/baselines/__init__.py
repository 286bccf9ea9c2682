"""What the paper compares with, and a floor below it; each states its own accounting, all share our codec and judges.

They run on public data, to be compared. So the noise of the DP-GANs and of independent columns is floating point from a
seed, which no row that needs protection may be trusted to. DP-MERF goes through our own release, and its noise has no seed.
"""
